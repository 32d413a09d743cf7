"""The report: one self-contained HTML file, the verdict first."""

from suffice.report.judging import Judgement as Judgement
from suffice.report.judging import Verdict as Verdict
from suffice.report.judging import judge as judge
from suffice.report.writing import report as report
