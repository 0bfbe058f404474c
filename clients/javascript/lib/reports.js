"use strict";
// What landstrip tells by --trap-fd, as it is made into a result.

/** How many denials a result holds. */
const DENIALS_MAX = 4096;

/** How many wait to be told, at most. */
const UNTOLD_MAX = 1 << 16;

/** How long denials are told before more is read, in milliseconds. */
const MOMENT = 10;

/** No line of landstrip's is longer, in UTF-16 units: names of files have 4096 bytes. */
const LINE_MAX = 1 << 20;

/** Hands over each line of a stream, parsed; ends with one that is not landstrip's. */
function lines(stream, hear) {
  let rest = "";
  stream.setEncoding("utf8").on("data", (text) => {
    const whole = (rest + text).split("\n");
    rest = whole.pop();
    let messages;
    try {
      messages = whole.map((line) => Object.assign({}, JSON.parse(line)));
    } catch {
      return stream.destroy();
    }
    messages.forEach((message) => hear(message));
    if (rest.length > LINE_MAX) stream.destroy();
  });
}

/** The denial that a report is of, if it is one. */
function denial(report) {
  for (const kind of ["Filesystem", "Network"]) {
    if (report[kind]) {
      const [operation, target, mechanism] = report[kind];
      return { kind: kind.toLowerCase(), operation, target, mechanism };
    }
  }
  return null;
}

/** The denial that a report is of; of a kind that is not known here, there is as much to show. */
function shown(report) {
  const [[kind, [operation, target = "", mechanism = ""]]] = Object.entries(report);
  return { kind: kind.toLowerCase(), operation, target, mechanism };
}

/** The failure of landstrip's own that a report is of, if it is one. */
function failure(report) {
  if (report.Usage !== undefined) return { source: "usage", message: report.Usage };
  if (report.Launch) return { source: "launch", message: report.Launch.join(": ") };
  return report.Internal ?? null;
}

/** A result to be: nothing of the command ran until landstrip says so. */
function empty() {
  return { status: 125, endedBy: "landstrip", error: null, limit: null, denials: [], advice: [], deniedBy: [] };
}

/**
 * Tells `hear` of denials, but not before more can be read: landstrip leaves out what is not read in time. Gives what adds
 * one, and what tells of all that are left at the end.
 */
function teller(hear) {
  const untold = [];
  const tell = (until) => {
    while (untold.length > 0) {
      hear(untold.shift());
      if (performance.now() >= until) return;
    }
  };
  const go = () => {
    tell(performance.now() + MOMENT);
    if (untold.length > 0) setImmediate(go);
  };
  const add = (denial) => {
    if (untold.length < UNTOLD_MAX && untold.push(denial) === 1) setImmediate(go);
  };
  return { add, finish: () => tell(Infinity) };
}

/** Puts reports into `result`, and hands over each denial. */
function collector(result, onDenial) {
  const known = new Set();
  return (report) => {
    const refused = denial(report);
    if (refused) {
      const name = JSON.stringify(report);
      if (!known.has(name) && known.size < DENIALS_MAX) result.denials.push(known.add(name) && refused);
      onDenial?.(refused);
    } else if (report.Exit) {
      result.endedBy = report.Exit[0];
    } else if (report.Advice) {
      const [key, value] = report.Advice;
      result.advice.push({ key, value });
    } else if (report.DeniedBy) {
      const [key, value, file, line] = report.DeniedBy;
      result.deniedBy.push({ key, value, file, line: Number(line) });
    } else {
      result.error = failure(report) ?? result.error;
      result.limit = report.Internal?.limit ?? result.limit;
    }
  };
}

module.exports = { lines, denial, shown, failure, empty, collector, teller };
