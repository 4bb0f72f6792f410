"""The files by which Linux describes a board."""

from pathlib import Path


def write_board(tmp_path) -> Path:
    """The files of a board with four Cortex-A55, as Linux shows them."""
    files = {
        'proc/cpuinfo': 'processor\t: 0\nCPU part\t: 0xd05\n\nprocessor\t: 1\nFeatures\t: fp asimd asimdhp\n',
        'proc/loadavg': '0.10 0.20 0.30 1/100 999\n',
        'proc/device-tree/model': 'Hardkernel ODROID-C4\0',
        'sys/class/thermal/thermal_zone0/type': 'soc-thermal\n',
        'sys/class/thermal/thermal_zone0/temp': '61500\n',
        'sys/class/thermal/cooling_device0/type': 'cpufreq-cpu0\n',
        'sys/class/thermal/cooling_device0/cur_state': '0\n',
    }
    for core in range(4):
        clock = f'sys/devices/system/cpu/cpu{core}'
        files |= {
            f'{clock}/cpufreq/scaling_governor': 'performance\n',
            f'{clock}/cpufreq/scaling_cur_freq': '2016000\n',
            f'{clock}/cpufreq/scaling_max_freq': '2016000\n',
            f'{clock}/cpufreq/cpuinfo_max_freq': '2016000\n',
            f'{clock}/regs/identification/midr_el1': '0x00000000412fd050\n',
        }
    for name, text in files.items():
        path = tmp_path / 'board' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / 'board'
