"""Check that every public name is in the reference, and that no two pages differ only in case.

Public are the names in ``tribit.__all__``, and the classes and functions of ``public_modules`` in conf.py: those in
``__all__``, or without it those that are defined there and have no leading underscore,
except ``internal_names``.
"""

import inspect
import shutil
from collections import Counter
from importlib import import_module
from pathlib import Path

from sphinx.util import logging

import tribit

logger = logging.getLogger(__name__)


def public_names(module_names):
    """Return the possible documented names of each public object."""
    homes = {}
    for name in tribit.__all__:
        homes[f"tribit.{name}"] = {f"tribit.{name}"}
    for module_name in module_names:
        module = import_module(module_name)
        for name, value in vars(module).items():
            is_code = inspect.isclass(value) or inspect.isfunction(value)
            if not is_code or name.startswith("_"):
                continue
            listed = getattr(module, "__all__", None)
            if value.__module__ != module_name if listed is None else name not in listed:
                continue
            places = {f"{module_name}.{name}", f"{value.__module__}.{name}"}
            if getattr(tribit, name, None) is value:
                places = {f"tribit.{name}"}
            homes[f"{module_name}.{name}"] = places
    return homes


def forget(app, _config):
    """Remove the pages of the previous build; docs/reference lists the current ones."""
    shutil.rmtree(Path(app.srcdir, "api"), ignore_errors=True)


def check(app, env):
    documented, internal = set(env.domains["py"].objects), set(app.config.internal_names)
    public = public_names(app.config.public_modules)
    for name in internal - set(public):
        logger.warning("%s does not exist; remove it from internal_names.", name)
    for name, places in public.items():
        if name not in internal and not places & documented:
            logger.warning("%s is public but not in the reference; add it to docs/reference.", name)
    for name, times in Counter(page.lower() for page in env.found_docs).items():
        if times > 1:
            logger.warning("%s: pages differ in case alone; see autosummary_filename_map.", name)


def setup(app):
    app.add_config_value("public_modules", [], "env")
    app.add_config_value("internal_names", [], "env")
    app.connect("config-inited", forget)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
