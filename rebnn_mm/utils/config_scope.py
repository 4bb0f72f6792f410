"""Makes ``rebnn_mm::<config>`` the name of our configs, as ``mmdet::<config>`` is of mmdet's."""

from __future__ import annotations

from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE, _get_package_and_cfg_path
from mmengine.hub import hub

from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.config_file import SCOPE, check_config_file, get_config_dir

_path_of_base = Config._get_cfg_path


def add_config_scope() -> None:
    """Have mmengine find our configs by scope: in ``_base_``, in ``get_config``, in the lists of its inferencers.

    mmengine wants a folder in their name, and gives the parts of a base a ``_scope_``. But some of ours build on mmdet
    and others on mmpretrain: parts are looked up in the ``default_scope`` that the config names.
    """
    MODULE2PACKAGE['rebnn_mm'] = 'rebnn_mm'
    Config._get_cfg_path = staticmethod(_get_cfg_path)
    hub._get_package_and_cfg_path = _package_and_path


def _get_cfg_path(cfg_path: str, filename: str) -> tuple[str, str | None]:
    if cfg_path.startswith(SCOPE):
        return str(get_config_dir() / _name_of(cfg_path)), None
    return _path_of_base(cfg_path, filename)


def _package_and_path(cfg_path: str) -> tuple[str, str]:
    if cfg_path.startswith(SCOPE):
        return 'rebnn_mm', _name_of(cfg_path)
    return _get_package_and_cfg_path(cfg_path)


def _name_of(cfg_path: str) -> str:
    """The name after the scope."""
    try:
        check_config_file(cfg_path)
    except RebnnError as error:
        raise FileNotFoundError(str(error)) from None
    return cfg_path.removeprefix(SCOPE)
