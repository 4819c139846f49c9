"""Philly's mix: the fit of `fit` to the reduced list of 82,247 jobs of the Philly trace, rounded.

What it was fitted to, and what generated workloads are tested against (durations in seconds):

    GPUs    jobs     GPU time   p50      p90       under 1 min   over 1 day
    1       93.2 %   18.1 %     1,117    8,512     8.1 %         1.6 %
    2–4     4.5 %    19.9 %     367      166,199   38.4 %        18.4 %
    5–8     2.0 %    48.4 %     23,683   352,409   1.8 %         37.9 %
    > 8     0.35 %   13.6 %     21,137   252,560   9.3 %         28.4 %

Arrivals: 31.5 jobs per hour with a variance of 161 times the mean, 778 in the busiest hour. Half
of the jobs are one tenant's sweeps of one-GPU jobs; tenants who train wide hold the GPU time.
Quantiles of the fit lie within 10 % of the table, shares within 1.1 percentage points.
"""

from weft.trace.mix import Lognormal, Mix, SizeClass, TenantMix

_ONE = SizeClass(
    widths=((1, 1.0),),
    durations=(
        Lognormal(0.1775, 64.63, 0.1639),
        Lognormal(0.1542, 185.7, 1.045),
        Lognormal(0.3838, 2000.0, 0.719),
        Lognormal(0.2845, 2780.0, 2.139),
    ),
)
_FEW = SizeClass(
    widths=((2, 0.493), (4, 0.507)),
    durations=(
        Lognormal(0.3006, 17.98, 0.3344),
        Lognormal(0.2629, 116.6, 1.612),
        Lognormal(0.3417, 38910.0, 1.552),
        Lognormal(0.0948, 128500.0, 0.4574),
    ),
)
_NODE = SizeClass(
    widths=((8, 1.0),),
    durations=(
        Lognormal(0.3122, 478.7, 1.55),
        Lognormal(0.256, 15150.0, 0.8307),
        Lognormal(0.3546, 198100.0, 0.9227),
        Lognormal(0.0772, 189700.0, 0.1707),
    ),
)
_MANY = SizeClass(
    widths=((12, 0.0242), (16, 0.6886), (24, 0.0242), (32, 0.2318), (64, 0.0208), (128, 0.0104)),
    durations=(
        Lognormal(0.2381, 346.6, 2.58),
        Lognormal(0.2867, 1031.0, 2.063),
        Lognormal(0.1023, 54420.0, 0.1272),
        Lognormal(0.3729, 150600.0, 0.9147),
    ),
)

PHILLY = Mix(
    name="philly",
    classes=(_ONE, _FEW, _NODE, _MANY),
    tenants=(
        TenantMix(
            "6214e9",
            0.5014,
            (0.9907, 0.0047, 0.0046, 0.0),
            (4, 59, 127, 222, 300, 415, 524, 801),
            10.6,
        ),
        TenantMix(
            "11cb48", 0.1957, (0.9078, 0.0904, 0.0006, 0.0012), (1, 1, 1, 1, 1, 1, 3, 51), 29.4
        ),
        TenantMix(
            "6c71a0",
            0.121,
            (0.9097, 0.0435, 0.0457, 0.0011),
            (1, 3, 10, 40, 74, 82, 84, 163),
            10.2,
        ),
        TenantMix(
            "b436b2",
            0.0903,
            (0.9749, 0.0101, 0.0069, 0.0081),
            (36, 182, 300, 368, 374, 376, 381, 384),
            2.75,
        ),
        TenantMix("103959", 0.0235, (0.8123, 0.1877, 0.0, 0.0), (1, 1, 1, 2, 2, 2, 2, 4), 13.9),
        TenantMix(
            "ee9e8c", 0.0184, (0.3951, 0.2482, 0.278, 0.0788), (1, 1, 1, 1, 1, 2, 5, 19), 32.5
        ),
        TenantMix(
            "0e4a51",
            0.0175,
            (0.7596, 0.2404, 0.0, 0.0),
            (7, 14, 40, 109, 117, 120, 124, 125),
            6.79,
        ),
        TenantMix("ed69ec", 0.0138, (1.0, 0.0, 0.0, 0.0), (1, 5, 9, 18, 48, 56, 58, 63), 12.7),
        TenantMix(
            "7f04ca", 0.0088, (0.2822, 0.455, 0.2476, 0.0152), (1, 1, 1, 2, 2, 4, 6, 14), 18.9
        ),
        TenantMix(
            "2869ce", 0.0051, (0.1517, 0.0332, 0.6943, 0.1209), (1, 1, 1, 1, 2, 3, 5, 8), 22.4
        ),
        TenantMix(
            "e13805", 0.0045, (0.5749, 0.2807, 0.0963, 0.0481), (1, 1, 1, 1, 1, 1, 1, 2), 35.4
        ),
    ),
    jobs_per_hour=31.47,
    daily_swing=0.29,
    peak_hour=18.5,
    surge_sigma=0.91,
    longest_seconds=4_628_226.0,
)
