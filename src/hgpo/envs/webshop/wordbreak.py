"""Where words begin and end: the word-break classes of characters (UAX #29) as Lucene's tokenizer has them.

`RANGES` lists, for each class, the code points that have it: steps in base 36, each the distance from the end
of the previous range and, after a dot, how much longer than one character the range is. The table is that of
Unicode 12.1, frozen here so that an index does not depend on the Python that builds it.
"""

from __future__ import annotations

from bisect import bisect_right

RANGES = {
    # letter
    "A": (
        "1t.p 7.p 1c b 5 6.m 2.u 2.db 7.6 8.j 35.4 2.1 3.3 2 7 2.2 2 2.j 2.2a 2.3u 9.4l 2.11 3 2.1 2 2.14 "
        "20.q 5.4 19.16 10.1 2.2q 2 g.1 8.1 b.2 3 h 2.t u.2g c p.w a.1 5 6.l 5 a 4 o.o 8.a 1i.k 2.7 1z.1h 4 "
        "j 8.9 g.f 5.7 3.1 3.l 2.6 2 4.3 4 h e.1 2.2 f.1 b 9.5 5.1 3.l 2.6 2.1 2.1 2.1 w.3 2 k.2 h.8 2.2 "
        "2.l 2.6 2.1 2.4 4 j g.1 o c.7 3.1 3.l 2.6 2.1 2.4 4 v.1 2.2 g i 2.5 4.2 2.3 4.1 2 2.1 4.1 4.2 4.b "
        "n 1h.7 2.2 2.m 2.f 4 r.2 6.1 v 5.7 2.2 2.m 2.9 2.4 4 x 2.1 g.1 j.7 2.2 2.14 3 h 6.2 9.2 p.5 6.h "
        "4.n 2.8 2 3.6 8q 1s.7 2.z s.4 7o.11 2 6 3.16 2.3 75.20 2.3 3.6 2 2.3 3.14 2.3 3.w 2.3 3.6 2 2.3 "
        "3.e 2.1k 2.3 3.1u 12.f h.2d 3.5 4.h7 3.g 2.p 6.22 4.a 8.c 2.3 f.h f.h f.c 2.2 4w.2g 8.4 3.x 2 6.1x "
        "b.u 6a.m 6n.1a i.6 1k.t e.1 b.17 r.z 16.2 b.z 3.8 8.16 3.2 16.3 2.5 2.1 4 6.5b 1t.7p 3.5 3.11 3.5 "
        "3.7 2 2 2 2.u 3.1g 2.6 2 4.2 2.6 4.3 3.5 5.c 6.2 2.6 39 e h.c 2u 5 3.9 2 4.4 7 2 2 2.3 2.9 4.3 6.4 "
        "5 i.14 mm.b 2.12 1ef.1a 2.1a 2.3o 7.3 4.1 d.11 2 6 3.1j 8 h.m a.6 2.6 2.6 2.6 2.6 2.6 2.6 2.6 29 "
        "d2 1i.1 5l.16 35.q ls6.wc 1w.19 3.7g 4.f b.1 l.1a h.u 3.27 14.4o 3.4 1d.a 2.2 2.3 2.m u.1f f.1d "
        "1r.5 4 2.1 c.r b.m 1q.1a t 1d.14 o.2 2.7 45.a 8.2 d.5 3.5 3.5 a.6 2.6 2.1j 9.36 fmm.6 d.4 6 2.9 "
        "2.c 2.4 2 2.1 2.1 2.2z y.a2 j.1r 3.1h 15.b 39.4 2.3q 11.p 7.p 4m.b 2.p 2.i 2.1 2.e 3.d z.3e 1y.1g "
        "7g.s 4.1c 1c.v e.t 6.11 b.t 3.z 5.7 2.4 17.4d j.z 5.z 5.13 9.1f 4d.8m a.l b.7 49.5 3 2.17 2.1 4 "
        "3.m b.m a.u 1u.i 2.1 b.l b.p 1z.1j 7.1 1t g.3 2.2 2.s 17.s 4.s 10.7 2.r s.1h b.l b.i e.h 33.20 "
        "1k.1e e.1e e.z d9.s b 9.l 4b.m d.1g 24.18 x.o r.z u c.y 4 d.1b f.3 m 2 10.h 2.o 2d.6 2 2.3 2.e 2.9 "
        "8.1a 13.7 3.1 3.l 2.6 2.1 2.4 4 j d.4 4f.1g j.3 l x.1b l.1 2 55.1a 16.3 11.1b l 1o.16 e 94.17 "
        "39.1r w 4h.7 3.12 h 2 t b.13 8 m c.19 k z.1k 7c.8 2.10 i 1e.t 35.6 2.1 2.11 m q.5 2.1 2.v f 94.i "
        "7i.pl 2v.32 i.5f 24d.tq 34i.g6 6nu.fs 8.u 36.t j.1b h.3 w.k 6.i j5.1r 3l.22 6 1v.c 1t.1 2 f19.2y "
        "6.c 4.8 8.9 4mf.2c 2.1y 2.1 3 3.1 3.3 2.b 2 2.6 2.1s 2.3 3.7 2.6 2.r 2.3 2.4 2 4.6 2.9f 3.o 2.o "
        "2.u 2.o 2.u 2.o 2.u 2.o 2.u 2.o 2.7 1th.18 b.6 h aa.17 105.5g 1o.1v 8 xh.3 2.q 2.1 2 3 2.9 2.3 2 2 "
        "7 5 2 2 2.2 2.1 2 3 2 2 2 2 2.1 2 3.3 2.6 2.3 2.3 2 2.9 2.g 6.2 2.4 2.g hh.p 7.p 9.b 3.9"
    ),
    # digit
    "N": (
        "1c.9 17r.9 2 3p.9 5j.9 bh.9 3b.9 3b.9 3b.9 3b.9 3b.9 3b.9 3b.9 3b.9 3b.9 2p.9 3b.9 1z.9 7r.9 1z.9 "
        "1fr.9 13.9 8d.9 3l.9 4n.9 7.9 53.9 2f.9 3r.9 7.9 r7r.9 iv.9 13.9 5j.9 n.9 2f.9 bb.9 gev.9 13b.9 "
        "1on.9 ml.9 3l.9 1p.9 41.9 7r.9 9j.9 3b.9 af.9 2v.9 2v.9 br.9 o7.9 6v.9 1z.9 f5j.9 6f.9 lf9.1d "
        "1tt.9 br.9 193.9"
    ),
    # Hangul
    "G": "3cw.73 65u.2l no2.s hw.8mb d.m 5.1c 7tx.u 4.5 3.5 3.5 3.2",
    # Katakana
    "K": "9ip.4 2u.1 4.2i 2.3 6p.f 5t.1a 2.2f 14b3.1j yub 9w.3",
    # Hiragana
    "J": "9j5.2d 7.2 23qa.7x 1e.2 cry",
    # ideograph
    "I": "96o.p 2.2g d.5x 1e q.8 f.2 qu.52t 23.g6n hld.a5 3.2x 1fl3.wye 16.378 c.65 3.4g1 f.5rk 2e8.f1",
    # South-East Asian letter
    "S": (
        "2rl.1b 2.1 d.6 1n.1 2 2.4 2.n 2 2.9 2.1 a 3.4 2 m.3 81.16 l h.5 5.3 4 4.1 8.2 5.c d g.1 1cx.1f 10 "
        "5 ac.t 3.4 c.17 5.p h 4.1 1t.1g 24.d sab.4 2.9 b.4 2q.q 4.1d 2 4.1 3.4 3 2 p.4 lcx.q w.1 4"
    ),
    # South-East Asian mark
    "T": (
        "2sx 3.6 d.7 2r 3.8 c.5 9q.j o.3 5.2 2.2 3.6 4.3 e.b 2 b.3 1ef.v a hk.9 2.s sbt 46.2 1f 2.2 3.1 6.1 "
        "2 lek.e"
    ),
    # extending mark or format character
    "E": (
        "4t gj.33 7o.6 7c.18 2 2.1 2.1 2 1l.5 b.a 2 1b.k h 2u.7 2.5 3.1 2.3 y 2 v.q 2k.a 1n.8 a p.3 2.8 2.2 "
        "2.4 18.2 3c.1c 1j.2 2.h 2.6 b.1 u.2 1l 2.6 3.1 3.2 a b.1 r 3.2 1l 2.4 5.1 3.2 4 v.1 4 c.2 1l 2.7 "
        "2.2 2.2 l.1 n.5 2.2 1l 2.6 3.1 3.2 9.1 b.1 v 1o.4 4.2 2.3 a 15.4 1m.6 2.2 2.3 8.1 c.1 u.2 1l 2.6 "
        "2.2 2.3 8.1 c.1 t.3 1k.1 2.6 2.2 2.3 a b.1 v.1 1z 5.5 2 2.7 j.1 85.1 s 2 2 5.1 1e.j 2.1 6.a 2.z a "
        "pj.2 qb.2 u.2 u.1 v.1 48.3 3b.1 z 3b.b 5.b 64.4 2s 1d.e 1u.4 1c.g 13.8 d.2 v.c 1l.d 1d.j 49.2 2.k "
        "5 7 3.2 5j.1l 2.4 el.3 r.4 1e.4 2.9 2p.i 2.c 2db.2 3y 2p.v ff.5 2y.1 n9x.3 2.9 x.1 29.1 7l 4 5 o.4 "
        "2h.1 1f.h r.h e 13.7 q.c 19.3 1c.d 2x.d d 9.1 4e.4 6.1 6l.7 2.1 fn5 ki.d 2 h.f 5s 4f.1 2i.2 ea 6b "
        "46.4 1af.2 2.1 6.3 15.2 5 4m.1 fy.3 f3.a 4w.2 1i.e 1l.3 1a.a 3 g 1f.2 11.d h.1 19 d.2 1d.d 9.3 "
        "2o.b 7 4h.b m.3 1k.1 2.6 3.1 3.2 a b.1 3.6 4.4 5d.h o 2a.j 6k.6 3.8 s.1 2b.g 2z.c ad.e bb.6 3.6 4 "
        "t.9 15.6 2.3 9 a.a 1b.f ba.7 2.7 2b.l 2.d 3f.5 4 2.1 2.6 2 1v.4 2.1 2.4 9o.3 46y.8 at4.4 1o.6 t5 "
        "2.1i 8.3 f7v.1 2.3 43m.4 4.l 3.6 v.3 45.2 1j0.1i 5.1d 9 f n.4 2.e 11t.6 2.g 3.6 2.1 2.4 7a.6 c6.3 "
        "15t.6 32.6 gzav v.2n 3l.6n"
    ),
    # connector
    "_": "2n 6a8 g.1 k 17tr.1 p.2 6o",
    # joins letters
    "L": "1m 3h k0 h9 56b 17u4 1u 5h",
    # joins digits
    "D": "18 f n7 ej 3n.1 2n b0 4ss 17t8 4 1o 4 54 f",
    # joins letters or digits
    "B": "1a 6ay.1 b 17vy 51 7",
    # single quote
    "Q": "13",
    # double quote
    "W": "y",
    # pictograph
    "M": (
        "4p 5 68e d 61 36.5 g.1 a8.1 d 2o 1z q.a 5.2 c0.1 b a 1n.3 2.5 2.b 2.35 b.39 3.a 2 2 7 4 7 b.1 g 3 "
        "5 2 5.2 2 c.4 1a.2 a f f ad.1 cw.2 k.1 1g 5 yj d gq 2 2fzb.73 e.2 w 1p.3 v 3.9 j.1k s.e b l 3.8 "
        "2.3 a.c1 6.8t 9.7d 1d.3j 39.b 2e.16 d.3 1l.7 b.5 15.7 v.29 d.1a 2.9 2.1bq"
    ),
    # letter that is also a pictograph
    "P": "6k9 p5 2izy.1 d.1",
    # skin tone
    "F": "2qrf.4",
    # regional indicator
    "R": "2qcm.p",
    # keycap
    "C": "6hv",
    # text presentation selector
    "V": "1e6m",
}

# Hebrew letters are letters that also take a closing quote. Four characters have a class of their own: the
# zero-width joiner, an extending mark that also glues pictographs, the emoji presentation selector, and the
# two signs besides the digits that a keycap can enclose.
HEBREW = "15c.q 5.3 1cff 2.9 2.c 2.4 2 2.1 2.1 2.9"
SINGLE = {0x200D: "Z", 0xFE0F: "U", ord("#"): "#", ord("*"): "#"}


def spans(text: str) -> list[tuple[int, int]]:
    """The (first, last) code points of an encoded list of ranges."""
    pairs = []
    end = 0
    for part in text.split():
        gap, _, more = part.partition(".")
        start = end + int(gap, 36)
        end = start + (int(more, 36) if more else 0)
        pairs.append((start, end))
    return pairs


class ClassTable(dict[int, str]):
    """Code point to class letter, for `str.translate`; a space is the class of everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges = sorted(
            (first, last, name) for name, text in RANGES.items() for first, last in spans(text)
        )
        self.starts = [first for first, _, _ in self.ranges]
        for first, last in spans(HEBREW):
            self.update(dict.fromkeys(range(first, last + 1), "H"))
        self.update(SINGLE)

    def __missing__(self, point: int) -> str:
        index = bisect_right(self.starts, point) - 1
        _, last, name = self.ranges[index]
        self[point] = kind = name if index >= 0 and point <= last else " "
        return kind
