# A simulator in R for suffice's Model.command: x is an AR(1) series of 20 values.
#
# Reads  {"theta": {"phi": 0.3, "sigma": 1.2}, "seed": 12345}  from standard input,
# writes {"x": [...]}                                          to standard output.
#
# Needs the package jsonlite. Model.command(prior, ["Rscript", "simulator.R"], names=["phi", "sigma"])
# Starting R takes longer than this simulation: a real one should be long enough to be worth a start.

order <- jsonlite::fromJSON(file("stdin"))
set.seed(order$seed) # 31 bits: fits an R integer

phi <- order$theta$phi
sigma <- order$theta$sigma
if (!is.numeric(phi) || !is.numeric(sigma)) stop("the order lacks phi or sigma")
x <- numeric(20)
x[1] <- rnorm(1, 0, sigma / sqrt(1 - phi^2))
for (t in 2:20) x[t] <- phi * x[t - 1] + rnorm(1, 0, sigma)

cat(jsonlite::toJSON(list(x = x), digits = NA), "\n")
