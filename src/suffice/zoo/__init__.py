"""The paper's models, with its priors and sizes, and exact posteriors where the likelihood is known."""

from suffice.zoo.autoregressive import ar2 as ar2
from suffice.zoo.exact import exact_posterior as exact_posterior
from suffice.zoo.iid_beta import beta as beta
from suffice.zoo.iid_gamma import gamma as gamma
from suffice.zoo.iid_gaussian import gaussian as gaussian
from suffice.zoo.lorenz import lorenz96 as lorenz96
from suffice.zoo.moving_average import ma2 as ma2
