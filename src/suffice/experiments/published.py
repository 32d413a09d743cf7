"""The numbers that are printed in the paper; the values behind its boxplots are not."""

MCC = {  # weak in, weak out, strong in, strong out
    ("SM", "beta", "statistics"): (0.964, 0.958, 0.723, 0.723),
    ("SM", "beta", "natural"): (0.990, 0.991, 0.807, 0.812),
    ("SM", "gamma", "statistics"): (0.911, 0.924, 0.894, 0.883),
    ("SM", "gamma", "natural"): (0.967, 0.967, 0.872, 0.873),
    ("SM", "gaussian", "statistics"): (0.944, 0.937, 0.808, 0.824),
    ("SM", "gaussian", "natural"): (0.974, 0.974, 0.970, 0.972),
    ("SSM", "beta", "statistics"): (0.990, 0.986, 0.982, 0.979),
    ("SSM", "beta", "natural"): (0.987, 0.989, 0.983, 0.985),
    ("SSM", "gamma", "statistics"): (0.939, 0.928, 0.723, 0.709),
    ("SSM", "gamma", "natural"): (0.977, 0.977, 0.792, 0.794),
    ("SSM", "gaussian", "statistics"): (0.874, 0.844, 0.623, 0.638),
    ("SSM", "gaussian", "natural"): (0.861, 0.862, 0.581, 0.543),
}
ITERATIONS_TO_MATCH: dict[str, dict[str, int | None]] = {  # of Exc-SM's median W₂; None: never
    "beta": {"ABC-SM": 25, "ABC-SSM": 18, "ABC-FP": None, "PMC-SL": 1, "PMC-RE": 1},
    "gamma": {"ABC-SM": 47, "ABC-SSM": 29, "ABC-FP": None, "PMC-SL": 1, "PMC-RE": 1},
    "gaussian": {"ABC-SM": 27, "ABC-SSM": 26, "ABC-FP": None, "PMC-SL": None, "PMC-RE": 1},
    "ar2": {"ABC-SM": 32, "ABC-SSM": 31, "ABC-FP": 23, "PMC-SL": 1, "PMC-RE": None},
    "ma2": {"ABC-SM": 31, "ABC-SSM": 21, "ABC-FP": 20, "PMC-SL": 1, "PMC-RE": None},
}
SIMULATIONS_PER_ITERATION = {
    "ABC-SM": 1000,
    "ABC-SSM": 1000,
    "ABC-FP": 1000,
    "PMC-SL": 100_000,
    "PMC-RE": 1_000_000,
}
EXCHANGE_MINUTES = {  # for one observation on one core, by inner steps
    "iid": {10: 2, 30: 4, 100: 16, 200: 28},
    "series": {10: 2, 30: 5, 100: 17, 200: 29},
}
BANDWIDTH = {"lorenz96-small": 1.54, "lorenz96-large": 6.38}
