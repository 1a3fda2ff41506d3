"""Sphinx settings. `make docs` builds the manual, with warnings as errors."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

from tribit import __version__  # noqa: E402

project = "tribit"
author = "The tribit developers"
copyright = "2026, The tribit developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",  # pages of examples/, which are run
    "command_help",  # the text of --help, generated at build time
    "error_table",  # causes and remedies of errors, read from the code
    "docstrings",  # formulas of docstrings verbatim
    "mathml",  # formulas of pages, without downloads
    "public_names",  # every public name is in the reference
    "run_examples",  # runs the code blocks of the pages listed below
    "search_terms",  # queries of readers lead to their pages
]

source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = [
    "_build",
    "_templates",
    "compared",
    "measured",
    "reproduced",
]  # parts of other pages
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
# Classes and functions whose names differ only in case, for case-insensitive file systems.
autosummary_filename_map = {
    f"tribit.{name}": f"tribit.{name}-class"
    for name in (
        "metrics.entries.Reliability",
        "datasets.Coat",
        "propensity.Calibration",
        "uncertainty.Beta",
        "uncertainty.Conformal",
        "uncertainty.Identity",
        "uncertainty.Isotonic",
        "uncertainty.Platt",
    )
}
autodoc_typehints = "none"  # numpydoc has the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
highlight_language = "none"  # of blocks without a language: formulas
numpydoc_show_class_members = False  # the class template lists them

public_modules = [
    "tribit.paper.systems",
    "tribit.metrics.entries",
    "tribit.paper.classification",
    "tribit.paper.comparison",
    "tribit.model.constraints",
    "tribit.datasets",
    "tribit.errors",
    "tribit.estimates",
    "tribit.explain",
    "tribit.explain.neighbours",
    "tribit.paper.experiments",
    "tribit.model.features",
    "tribit.ranking",
    "tribit.report",
    "tribit.model.risks",
    "tribit.backends",
    "tribit.model.label_noise",
    "tribit.model.links",
    "tribit.evaluation",
    "tribit.data.measurements",
    "tribit.data.observations",
    "tribit.plots",
    "tribit.propensity",
    "tribit.questions",
    "tribit.evaluation.ranking",
    "tribit.datasets.ratings",
    "tribit.ranking.lists",
    "tribit.model.spec",
    "tribit.simulate.sampling",
    "tribit.selection.gammas",
    "tribit.simulate",
    "tribit.simulate.tables",
    "tribit.solvers",
    "tribit.storage",
    "tribit.paper.theory",
    "tribit.uncertainty",
    "tribit.uncertainty.positions",
]
# Helpers in public modules.
internal_names = [
    "tribit.backends.check_dtype",
    "tribit.backends.uses_estimates",
    "tribit.data.observations.ByLabel",
    "tribit.data.observations.read_entries",
    "tribit.data.observations.read_mask",
    "tribit.datasets.ratings.RatingFormat",
    "tribit.datasets.ratings.Scale",
    "tribit.datasets.ratings.TextFile",
    "tribit.datasets.ratings.find",
    "tribit.datasets.ratings.read_matrix",
    "tribit.datasets.ratings.read_ratings",
    "tribit.errors.either",
    "tribit.errors.listed",
    "tribit.errors.parameter",
    "tribit.errors.printable",
    "tribit.errors.quoted",
    "tribit.errors.warn",
    "tribit.errors.where_possible",
    "tribit.errors.with_mentions",
    "tribit.propensity.unknown_name_error",
    "tribit.selection.gammas.proposed_shares",
]
example_pages = [
    "quickstart.md",
    "index.md",  # with the file of the quickstart
    "../README.md",  # with the same file
    "data.md",
    "weights.md",
    "time.md",
    "fitting.md",
    "recommendations.md",
    "command-line.md",
    "completing.md",  # with the file of the command line
    "coming-from.md",
    "likes-only.md",
    "new-users.md",
    "unobserved.md",
    "choosing.md",
    "probabilities.md",
    "explaining.md",
    "evaluating.md",
    "votes.md",
    "surveys.md",
    "benchmark-subsets.md",
    "serving.md",
    "report.md",
    "systems.md",
    "../CONTRIBUTING.md",
]
# Queries and the page that must be the first result, by its index entries.
searches = {
    "0/1": "data",
    "cold start": "new-users",
    "complete a table": "completing",
    "fold-in": "new-users",
    "GPU": "scale",
    "hyperparameter": "choosing",
    "ideal point": "votes",
    "implicit feedback": "likes-only",
    "imputation": "completing",
    "install": "install",
    "item response": "surveys",
    "latent factor": "fitting",
    "matrix factorization": "fitting",
    "missing not at random": "unobserved",
    "NDCG": "metrics",
    "popularity": "evaluating",
    "Rasch model": "surveys",
    "recommender system": "recommendations",
    "survey": "surveys",
    "top-n": "recommendations",
    "validation set": "choosing",
    "votes": "votes",
}
# Questions of new users, and the page that must be among the first three results (tests/browser).
questions = {
    "how do I get a list for one user as a data frame": "recommendations",
    "what does 0 mean": "data",
    "which command for ratings 1-5": "data",
    "like_at": "data",
    "how do I know it is better than popularity": "evaluating",
    "how do I fill the missing cells of my table": "completing",
    "fill missing values": "completing",
    "how do I add new users": "new-users",
    "new users": "new-users",
    "how do I save and load": "fitting",
    "how do I tune the hyperparameters": "choosing",
    "how to tune": "choosing",
    "implicit feedback likes only": "likes-only",
    "likes only": "likes-only",
    "purchases": "likes-only",
    "how big can my data be": "scale",
    "large data": "scale",
    "how to compare with matrix factorization libraries": "coming-from",
    "compare with other libraries": "coming-from",
    "how certain is a prediction": "probabilities",
    "confidence interval": "probabilities",
}
data_pages = ["tutorial.md"]  # TRIBIT_DATA=folder make docs

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "gallery_order.ByTask",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 600,  # times depend on the machine
    "show_signature": False,
    "plot_gallery": True,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "tribit"
html_static_path = ["_static"]
html_theme_options = {
    "logo": {"text": f"tribit {version}"},
    "show_prev_next": True,
    "navbar_center": ["navbar-nav"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_css_files = ["tribit.css"]
# All pages in the sidebar of every page but the front page.
html_sidebars = {"index": [], "**": ["sidebar-tasks"]}
html_show_sourcelink = False
html_search_scorer = str(HERE / "_ext" / "scorer.js")
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
