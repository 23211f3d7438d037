"""Makes the example data of the notebooks: an invented wheat trial. Standard library only, seeded.

    python notebooks/data/make_data.py [FOLDER]

writes into FOLDER (default: the folder of this file)

- plots.csv     96 plots: 3 sites x 4 varieties x 4 nitrogen rates x 2 blocks; yield in t/ha
- stations.csv  3 weather stations x 12 months
- trees.tsv     60 trees of the windbreaks, tab separated
- field_notes_north.md, field_notes_south.txt, field_diary_zh.md

Nothing in it was measured. The recipe, so that a reader can check what an agent finds:

1. yield = 4.2 + variety effect (Alder 0, Birch 0.3, Cedar 0.6, Dogwood -0.2)
   + nitrogen response + noise (normal, sd 0.25).
2. The nitrogen response is 0.012 t/ha per kg at North and Middle, up to 120 kg; at South it is 0.002,
   because South had a drought in June: stations.csv gives it 9.4 mm of rain in that month.
3. The yields of block 2 at Middle under 180 kg are missing: the harvester broke down there.
4. Trees within 20 m of the canal are thicker by 8 cm; 5 of the heights were not taken.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

SITES = ("North", "Middle", "South")
VARIETIES = {"Alder": 0.0, "Birch": 0.3, "Cedar": 0.6, "Dogwood": -0.2}
NITROGEN_KG_HA = (0, 60, 120, 180)
BLOCKS = (1, 2)
JUNE = 6
DROUGHT_RAIN_MM = 9.4
SEED = 20240611


def main(folder: Path) -> None:
    """Write all files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(SEED)
    plots = list(_plots(rng))
    _write_table(folder / "plots.csv", plots)
    _write_table(folder / "stations.csv", _stations(rng))
    _write_table(folder / "trees.tsv", _trees(rng))
    _write_text(folder / "field_notes_north.md", NORTH)
    _write_text(folder / "field_notes_south.txt", SOUTH)
    _write_text(folder / "field_diary_zh.md", DIARY)


def _plots(rng: random.Random) -> Iterable[Sequence[object]]:
    yield ("plot_id", "site", "block", "variety", "nitrogen_kg_ha", "sown_on", "plants_m2", "yield_t_ha")
    number = 0
    for site in SITES:
        for block in BLOCKS:
            for variety, effect in VARIETIES.items():
                for nitrogen in NITROGEN_KG_HA:
                    number += 1
                    response = 0.002 if site == "South" else 0.012
                    value = 4.2 + effect + response * min(nitrogen, 120) + rng.gauss(0, 0.25)
                    lost = site == "Middle" and block == 2 and nitrogen == 180
                    sown = f"2023-10-{10 + SITES.index(site) * 3 + block:02d}"
                    plants = round(rng.gauss(310, 18))
                    harvest = "" if lost else f"{value:.2f}"
                    yield (f"P{number:03d}", site, block, variety, nitrogen, sown, plants, harvest)


def _stations(rng: random.Random) -> Iterable[Sequence[object]]:
    yield ("station", "month", "mean_temperature_c", "rain_mm", "frost_days", "sunshine_h")
    temperatures = (1.2, 2.0, 5.6, 9.3, 13.8, 17.1, 19.0, 18.6, 14.7, 10.2, 5.4, 2.3)
    for index, site in enumerate(SITES):
        for month, normal in enumerate(temperatures, 1):
            temperature = normal + 0.5 * index + rng.gauss(0, 0.4)
            rain = rng.uniform(38, 84)
            if site == "South" and month == JUNE:
                rain = DROUGHT_RAIN_MM
            frost = max(0, round(12 - 2.2 * temperature + rng.gauss(0, 1)))
            sunshine = "NA" if (site, month) == ("Middle", 9) else round(50 + 9.5 * temperature + rng.gauss(0, 12))
            yield (site, f"2024-{month:02d}", f"{temperature:.1f}", f"{rain:.1f}", frost, sunshine)


def _trees(rng: random.Random) -> Iterable[Sequence[object]]:
    yield ("tree", "species", "distance_to_canal_m", "diameter_cm", "height_m")
    unmeasured = set(rng.sample(range(60), 5))
    for index in range(60):
        species = rng.choice(("poplar", "willow", "alder", "field maple"))
        distance = rng.randint(2, 90)
        diameter = rng.gauss(27, 3.5) + (8 if distance <= 20 else 0)
        height = "NA" if index in unmeasured else f"{4 + diameter * 0.42 + rng.gauss(0, 0.8):.1f}"
        yield (f"T{index + 1:02d}", species, distance, f"{diameter:.1f}", height)


def _write_table(path: Path, rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


NORTH = """\
# Field notes, North

Invented example data; see make_data.py.

## Site

North lies on a gentle slope of loam over chalk. The drains were cleared in autumn, and the seedbed
was fine and even. Sowing took two days, one for each block. Emergence was complete by the first
week of November, with about three hundred plants to the square metre in nearly all plots.

## Season

- March was mild. Tillering was strong in Cedar and Birch, weaker in Dogwood.
- In April the first nitrogen was given. Within two weeks the plots without nitrogen could be told
  from the others by eye: pale leaves, thin stands.
- May brought steady rain. The gauge at the station was read each morning at eight.
- June stayed wet enough. No sign of drought at North; the soil was moist at a hand's depth all
  month.
- Some lodging after the storm in early July, only in Cedar under the highest nitrogen rate.

## Harvest

All plots at North were harvested in two days without trouble. The nitrogen rates showed as steps up
to 120 kg; between 120 and 180 kg nobody could see a difference. Grain was dry, no plot had to be
dried.

## Open questions

1. Does the response to nitrogen end at 120 kg at the other sites too?
2. Is the lead of Cedar the same at all sites?
3. The windbreak shades the two outer plots of block 1 until nine in the morning. Does it matter?
"""

SOUTH = """\
Field notes, South
Invented example data; see make_data.py.

South is the light land of the trial: sand, stones, and a water table out of reach of the roots. It
was sown last, in the middle of October, and it was the first to show stress in summer.

Until the end of May the crop looked as good as at the other sites. The nitrogen steps could be
seen, though less clearly than at North. Then the rain stopped. The station recorded less than ten
millimetres for the whole of June, in two showers that did not wet the soil below the first
centimetre. By the tenth of June the leaves rolled at noon, by the twentieth they stayed rolled in
the morning. This was a drought in the weeks in which the grain is set and begins to fill, and no
later rain could mend it.

What we saw in the plots: the drought made them alike. Plots with much nitrogen had more leaf, used
up the water sooner and ripened early with small grain. Plots without nitrogen were shorter and
stayed green a few days longer. At harvest the combine's monitor hardly moved from one nitrogen rate
to the next, while the varieties could still be told apart. Cedar was best again, Dogwood last.

The soil moisture probe at block 2 failed on the third of June and was replaced on the ninth; its
values for that week should not be used. Pigeons took some ears at the edge of block 1. No disease
was found.

For the report: any mean over the three sites hides what happened here. Show South by itself, and
set the June rain of the stations beside the yields.
"""

DIARY = """\
# 田间日记（中部试验点）

虚构的示例数据，说明见 make_data.py。

## 春季

三月下旬返青，四个小麦品种长势整齐。四月初第一次追施氮肥，两周以后，不施氮的小区叶色明显变浅。
五月降雨均匀，土壤水分充足，没有发现病害。

## 夏季

六月的降雨虽然比五月少，但是土壤水分仍然够用，中部没有出现干旱。同一时期，南部试验点旱情严重，
那里的同事说整个六月的降雨不到十毫米，叶片中午卷曲，氮肥几乎没有作用。

七月上旬有一次大风，高氮小区的两个品种有轻微倒伏。

## 收获

收获第一天顺利完成第一区组。第二天收割机在第二区组出现故障，施氮 180 公斤的四个小区没有测到产量，
表格中留空。这四个小区的产量不是零，统计平均产量时不能当作零处理。

九月气象站的日照记录仪停止工作，当月日照时数缺失，记为 NA。

## 待查问题

1. 氮肥用量超过 120 公斤以后，产量是否还会增加？
2. 三个试验点的降雨差异能否解释产量差异？
3. 渠道附近的树木更粗，是否会与边行小麦争水？
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
