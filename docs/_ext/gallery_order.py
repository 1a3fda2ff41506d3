"""Order of the gallery, by task."""

ORDER = (
    "plot_ratings.py",
    "plot_test.py",
    "plot_votes.py",
    "plot_purchases.py",
    "plot_benchmark.py",
    "plot_means.py",
    "plot_asking.py",
    "plot_avoid_dislikes.py",
    "plot_list_value.py",
    "plot_new_users.py",
    "plot_missing_not_at_random.py",
    "plot_uncertainty.py",
    "plot_compare_systems.py",
    "plot_guarantees.py",
    "plot_extend.py",
)


class ByTask:
    """Sort key of file names; an unlisted file is an error."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        return ORDER.index(name)
