/* Scores of the manual's search: pages for users come before the reference, and these before pages for contributors. */
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, , , , score, , kind]) => {
    if (kind === "index" || kind === "object") return score;
    if (page === "faq") return score + (kind === "title" ? 8 : 3);
    if (/^(changelog|contributing|mathematics|theory|reproduction|benchmarks|versions)$/.test(page)) return score - 4;
    if (/^(api$|reference\/)/.test(page)) return score - 3;
    if (/^(api|auto_examples)\//.test(page)) return score - 2;
    return score;
  },
};
