"""From text to a torch module: the stages in order, each turning one datatype into the next.

    text → parse → LossDef → check → CheckedLoss → lower → Graph → derive → JointGraph → plan → Plan → emit → Emitted
         → assemble → Artifact → load → nn.Module

`front` goes as far as the checker, `middle` as far as the plan, `build` all the way. Each gives everything it made.
"""

from lossdsl.pipeline.compiling import Built, build
from lossdsl.pipeline.functions import module_kernels
from lossdsl.pipeline.printing import chosen, tile_programs
from lossdsl.pipeline.stages import Front, Middle, front, middle, split_heads, where_from

__all__ = [
    "Built",
    "Front",
    "Middle",
    "build",
    "chosen",
    "front",
    "middle",
    "module_kernels",
    "split_heads",
    "tile_programs",
    "where_from",
]
