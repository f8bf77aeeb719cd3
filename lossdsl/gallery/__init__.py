"""A site of static pages, one a loss: `python -m lossdsl.gallery FOLDER`. No network is needed."""
