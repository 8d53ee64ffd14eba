"""Run by tools/test, or by hand: `cd bench && python3 -m unittest discover -s tests -t .`"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
