"""The kernel: one of bke.models by its short name, or one of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ...core.errors import nearest
from .panels import MODEL

if TYPE_CHECKING:
    from bke.models.kernels.base import Kernel

#: Each name's class in bke.models and the parameters it is built with.
KERNELS: dict[str, tuple[str, dict[str, float]]] = {
    "se": ("SquaredExponential", {}),
    "matern12": ("Matern", {"nu": 0.5}),
    "matern32": ("Matern", {"nu": 1.5}),
    "matern52": ("Matern", {"nu": 2.5}),
    "laplace": ("Laplace", {}),
    "rq": ("RationalQuadratic", {}),
}
#: What ``--kernel`` takes.
KERNEL_METAVAR = "NAME|MODULE:CLASS"

KernelOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar=KERNEL_METAVAR,
        rich_help_panel=MODEL,
        help="Kernel: se, the squared exponential; matern12, matern32 and matern52, Matérn of "
        "smoothness 1/2, 3/2 and 5/2; laplace; rq, the rational quadratic (alpha 1); or a class of "
        "your own, by the module that it is in.",
    ),
]


def check_kernel(text: str, option: str) -> str:
    """Return ``text`` if it may name a kernel.

    Raises:
        BadParameter: it is no short name, and no MODULE:CLASS.
    """
    if text not in KERNELS and ":" not in text:
        raise typer.BadParameter(
            f"{text!r} is not one of {', '.join(map(repr, KERNELS))} or MODULE:CLASS"
            f"{nearest(text, KERNELS) or '.'}",
            param_hint=option,
        )
    return text


def parse_kernels(text: str, option: str) -> list[str]:
    """``se,matern32`` as a list, each name once."""
    names = [part.strip() for part in text.split(",")]
    return list(dict.fromkeys(check_kernel(name, option) for name in names))


def build_kernel(text: str) -> Kernel:
    """The kernel that ``--kernel`` names.

    Raises:
        InputError: there is no such module or class, or it is no kernel.
    """
    import bke.models as models

    if text not in KERNELS:
        return own_kernel(text)
    name, parameters = KERNELS[text]
    kernel: Kernel = getattr(models, name)(**parameters)
    return kernel


def own_kernel(path: str) -> Kernel:
    """A kernel of the user's, from ``module:name``; its parameters have defaults.

    Raises:
        InputError: one sentence that names the module or what is missing there.
    """
    from bke.models import kernel_from_path
    from bke.models.priors import template

    from ...core.errors import InputError

    try:
        return template(kernel_from_path(path))
    except ValueError as error:
        raise InputError(f"--kernel {path}: {error}") from None
