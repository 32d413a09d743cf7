"""How hot loops are compiled for the CPU: XLA's options for one program at a time."""

from functools import lru_cache

import jax

Options = dict[str, str | bool]

# Vectors as wide as the machine has them. A product of matrices goes to the library of products by itself: together
# with the sum over windows that follows, as XLA would have it, all of a window network runs there, unfused.
_WANTED: Options = {
    "xla_cpu_prefer_vector_width": "512",
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
}


def compiler_options() -> Options:
    """What to give `jax.jit` as `compiler_options`; empty where the default backend is no CPU.

    Options that this version of XLA does not know are left out. Asking starts JAX's backend, so ask when a program is
    first run, not when a module is imported.
    """
    if jax.default_backend() != "cpu":
        return {}
    return dict(option for option in _WANTED.items() if _is_known(option))


@lru_cache
def _is_known(option: tuple[str, str | bool]) -> bool:
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=dict([option]))
    except jax.errors.JaxRuntimeError:
        return False
    return True
