// One function in full.

import {h, say, bytes, duration, number, plural} from "./dom.js";
import * as charts from "./charts.js";
import * as series from "./series.js";
import {calling} from "./call.js";
import {logs} from "./logs.js";
import {instances, phasesOf, revisions, starts} from "./tables.js";

const WINDOW_S = 300;
const RATE_STEP_S = 5;

const limits = row => {
  const l = row.limits;
  if (!l) return "";
  const span =
    l.min_instances === l.max_instances
      ? plural(l.max_instances, "instance")
      : `${l.min_instances} to ${plural(l.max_instances, "instance")}`;
  return [
    span,
    `${plural(l.max_inputs, "call")} at once each, ${number(l.target_inputs)} aimed at`,
    `kept idle for ${duration(l.scaledown_window_s)}`,
    `time-out ${duration(l.timeout_s)}`,
    `${plural(l.cpu, "CPU")}`,
    bytes(l.memory_bytes),
  ].join(" · ");
};

const head = name => {
  const facts = ["ready", "in flight", "waiting", "requests", "failed", "starts", "last start"];
  const values = Object.fromEntries(facts.map(fact => [fact, h("dd", {}, "–")]));
  const about = h("p", {class: "soft about"}),
    limit = h("p", {class: "soft about"}),
    alarm = h("p", {class: "alarm", role: "status", hidden: true});
  const box = h(
    "header",
    {class: "head"},
    h("p", {class: "back"}, h("a", {href: "#/"}, "← All functions")),
    h("h1", {}, name),
    about,
    alarm,
    h(
      "dl",
      {class: "facts"},
      facts.map(fact => h("div", {}, h("dt", {}, fact), values[fact])),
    ),
    limit,
  );
  box.update = row => {
    about.replaceChildren(
      h("code", {}, `/f/${name}/`),
      " · ",
      row.target ?? "no code",
      " · ",
      row.snapshot ? "starts from its snapshot" : `runs setup()${row.reason ? `: ${row.reason}` : ""}`,
    );
    say(limit, limits(row));
    say(alarm, row.failure ?? "");
    alarm.hidden = !row.failure;
    const shown = [
      row.ready === row.instances ? number(row.ready) : `${row.ready} of ${row.instances}`,
      number(Math.max(0, row.in_flight - row.held)),
      number(row.held),
      number(row.requests),
      number(row.failed),
      number(row.starts),
      row.last_start_ms ? duration(row.last_start_ms.total / 1e3) : "–",
    ];
    facts.forEach((fact, i) => say(values[fact], shown[i]));
    values.failed.className = row.failed ? "bad" : "";
  };
  return box;
};

const section = (id, title, ...content) => h("section", {"aria-labelledby": id}, h("h2", {id}, title), ...content);

export const detail = (name, clock) => {
  let row = null,
    samples = [],
    known = [],
    meters = {histograms: {}, instances: {}};
  const top = head(name),
    log = logs(),
    ofRevisions = revisions(clock),
    ofInstances = instances(clock),
    ofStarts = starts(clock);
  const none = h("p", {class: "soft"}, "At zero: the next call starts an instance.");
  const byState = charts.overTime(
    "Instances",
    [
      {label: "ready", kind: "ready"},
      {label: "starting", kind: "starting"},
      {label: "draining", kind: "draining"},
    ],
    {seconds: WINDOW_S},
  );
  const load = charts.overTime(
    "Requests",
    [
      {label: "answered", kind: "ok"},
      {label: "failed", kind: "failed"},
    ],
    {seconds: WINDOW_S, step: RATE_STEP_S, unit: "/s"},
  );
  const queue = charts.overTime(
    "Queue",
    [
      {label: "in instances", kind: "busy"},
      {label: "waiting for one", kind: "starting"},
    ],
    {seconds: WINDOW_S},
  );
  const within = empty => ({
    empty,
    label: (bound, lower) => (Number.isFinite(bound) ? duration(bound) : `> ${duration(lower ?? 0)}`),
  });
  const latency = charts.histogram("Latency", "busy", {
    ...within(""),
    say: (counted, total) => `${charts.quantiles(counted, duration)} of ${plural(total, "call")}`,
  });
  const waits = charts.histogram("Time in an instance’s queue", "starting", {
    ...within("No call has been queued."),
    say: counted => charts.quantiles(counted, duration),
  });
  const batch = charts.histogram("Batch size", "ready", {
    empty: "No batch has run.",
    label: (bound, lower) => (Number.isFinite(bound) ? number(bound) : `> ${lower}`),
    say: (counted, total) => plural(total, "batch").replace("batchs", "batches"),
  });
  const depth = h("p", {class: "soft"}),
    uncounted = h("p", {class: "soft"}, "Instances count their calls; none has told of any since this page looks.");
  const counts = h("div", {class: "charts"}, latency, waits, batch);
  const box = h(
    "article",
    {},
    top,
    section("load", "Last five minutes", h("div", {class: "charts"}, byState, load, queue)),
    section("cold", "Cold starts", ofStarts),
    section("calls", "Calls", uncounted, counts, depth),
    calling(name, () => row !== null && row.ready > 0),
    section("instances", "Instances", none, ofInstances),
    section(
      "revisions",
      "Revisions",
      ofRevisions,
      h(
        "p",
        {class: "soft"},
        "Change their shares with ",
        h("code", {}, `faas traffic ${name}`),
        ", go back with ",
        h("code", {}, `faas rollback ${name}`),
        ".",
      ),
    ),
    log,
  );

  const drawTimes = () => {
    const until = Math.floor(clock.monotonic()),
      since = until - WINDOW_S + 1;
    const of = column => series.gauge(samples, column, since, until);
    byState.update([of(series.READY), of(series.STARTING), of(series.DRAINING)]);
    const waiting = of(series.WAITING);
    queue.update([of(series.CURRENT).map((value, i) => Math.max(0, value - waiting[i])), waiting]);
    const edge = until - (until % RATE_STEP_S);
    const rates = column => series.rate(samples, column, edge - WINDOW_S + 1, edge, RATE_STEP_S);
    const failed = rates(series.FAILED);
    load.update([rates(series.REQUESTS).map((value, i) => Math.max(0, value - failed[i])), failed]);
  };
  const drawLists = () => {
    const running = row.all_instances.map(one => ({...one, resident: meters.instances[one.id]?.resident_bytes}));
    ofInstances.update(running);
    ofInstances.hidden = !running.length;
    none.hidden = running.length > 0;
    ofRevisions.update(row.all_revisions);
    const current = running
      .filter(one => one.state === "starting")
      .map(one => ({id: one.id, how: one.how, isOver: false, total: Math.max(0, clock.monotonic() - one.began)}));
    ofStarts.update(
      known.map(([id, , how, readyAt, total, phases]) => ({
        id,
        how,
        readyAt,
        total,
        isOver: true,
        phases: phasesOf(phases, total),
      })),
      current,
    );
  };

  box.update = told => {
    if (told.row) {
      const now = clock.monotonic(),
        began = new Map((row?.all_instances ?? []).map(one => [one.id, one.began]));
      row = told.row;
      for (const one of row.all_instances) one.began = began.get(one.id) ?? now - one.age_s;
      top.update(row);
    }
    if (told.starts) known = told.starts;
    if (told.meters) {
      meters = told.meters;
      const of = kind => series.buckets(meters.histograms[kind]);
      latency.update(of("request_s"));
      waits.update(of("queue_s"));
      batch.update(of("batch_size"));
      counts.hidden = !of("request_s").some(([, count]) => count > 0);
      uncounted.hidden = !counts.hidden;
      const inside = Object.values(meters.instances).reduce((sum, one) => sum + (one.queue_depth ?? 0), 0);
      say(
        depth,
        !counts.hidden && Object.keys(meters.instances).length
          ? `${plural(inside, "item")} in the queues of instances at the last look.`
          : "",
      );
    }
    samples = series.merge(samples, told.samples ?? [], Math.floor(clock.monotonic()) - WINDOW_S);
    if (row) box.tick();
  };
  box.tick = () => {
    if (row) {
      drawTimes();
      drawLists();
    }
  };
  box.log = log.add;
  box.begin = () => {
    log.clear();
    samples = [];
  };
  return box;
};
