"""Codes of plugins and packs (E07xx). Their examples are lines of a distribution's entry points, or a .loss file."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

_POINTS = "[lossdsl.plugins]\nacme = acme_plugin\n"

CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "E0701",
        "a plugin can't be used",
        "A plugin that fails to import, or whose hooks fail, is left out, and nothing else with it. What it would have "
        "brought is missing; a name that isn't found says so.",
        _POINTS,
        "Install what the plugin needs, or update it. `LOSSDSL_DISABLE=acme` turns it off; with `--strict` or "
        "LOSSDSL_STRICT_PLUGINS=1 a plugin that can't be used stops everything.",
    ),
    ErrorCode(
        "E0702",
        "one name is brought twice",
        "Two distributions bring a backend, primitive or pack of one name (capital letters, `-` and `_` make no "
        "difference). Whichever was taken, some people would get another loss than they think.",
        "[lossdsl.losses]\nstd = acme_losses\n",
        "Uninstall one, or turn one off: `LOSSDSL_DISABLE=acme`. Two packs may hold losses of one name; "
        "`pack/loss` says which is meant.",
    ),
    ErrorCode(
        "E0703",
        "a pack can't be used",
        "An entry point of the group lossdsl.losses names a top-level package of .loss files, which is found without "
        "running any code.",
        "[lossdsl.losses]\nacme = acme.losses\n",
        "Let the entry point name a top-level package, and put it and its .loss files into the wheel "
        '(package-data = ["*.loss"]).',
    ),
    ErrorCode(
        "E0704",
        "a plugin is for another version of lossdsl",
        "The hooks and the interface of backends are numbered. A number is raised when what was written for the last "
        "one would break, so that a plugin outside the window gives a message instead of wrong results.",
        _POINTS,
        "Install the version of the plugin for this lossdsl, or the lossdsl that the plugin is for.",
    ),
    ErrorCode(
        "W0701",
        "a plugin is turned off",
        "LOSSDSL_DISABLE holds names of plugins, packs or distributions, separated by commas.",
        _POINTS,
        "Take the name out of LOSSDSL_DISABLE.",
    ),
)
