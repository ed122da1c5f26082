/** Clients that request builds, follow their logs, and check that each build ran once to its end. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerResponse } from '../world/sluice.ts';
import { numberedStep, readLog } from './build-log.ts';
import { inLanes } from './lanes.ts';
import { pullKept } from './pull-image.ts';
import type { Client, Storm, Work } from './storm.ts';
import { Wrong } from './wrong.ts';

/** The details of a build, as far as they tell how it ended. */
interface Details {
  readonly status: 'PENDING' | 'COMPLETED';
  readonly succeeded?: boolean;
  readonly digest?: string;
  readonly duration?: number;
  readonly reason?: string;
}

interface EndedBuild {
  readonly id: string;
  readonly end: string;
  readonly succeeded: boolean;
  readonly repository: string;
  readonly tag: string;
}

const lines = 15;
const pauseSeconds = 0.05;
const pauseMs = 200;
// A build begins again at most three times, after the end of a server.
const longestMs = 240_000;
// The storm may be the reason why a build fails. The log then gives its user this reason.
// Sweeps take a blob without a manifest after a minute here, and a push that lasts longer then lacks it.
const excused =
  /ended unexpectedly \d+ times while this build ran|\(tried \d+ times\): try again later|push the blob first/;

/** The builds of a storm. */
export class BuildWorks {
  readonly #ended: EndedBuild[] = [];
  #builds = 0;

  get ended(): readonly EndedBuild[] {
    return this.#ended;
  }

  /** Requests the same build twice at once, follows its log to its end, and checks its result. */
  readonly build: Work = async (storm, client) => {
    this.#builds += 1;
    const marker = `${storm.seed}-${this.#builds}`;
    const { http, tally, registry } = storm;
    const text = `FROM ${registry}/corpus/busybox:oci\nRUN ${numberedStep(marker, lines, pauseSeconds)}\n`;
    const request = () =>
      http.post<ContainerResponse>('/v1alpha2/container', {
        containerFile: Buffer.from(text).toString('base64'),
      });
    const responses = await Promise.allSettled([request(), request()]);
    const given = responses.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []));
    const ids = new Set(given.flatMap(({ buildId }) => buildId ?? []));
    if (ids.size > 1) throw new Wrong(`one recipe has the builds ${[...ids]}`);
    const [id] = ids;
    const [, repository = '', tag = ''] =
      /^[^/]+\/(.+):([^:]+)$/.exec(given[0]?.targetImage ?? '') ?? [];
    if (id === undefined) throw (responses[0] as PromiseRejectedResult).reason;
    tally.acknowledge('builds requested');
    await followToEnd(storm, client, id);
    const details = await untilCompleted(storm, id);
    tally.acknowledge(`builds ${details.succeeded ? 'succeeded' : 'failed'}`);
    if (!details.succeeded) tally.refuse('a build failed', new Error(details.reason));
    this.#ended.push({
      ...{ id, end: JSON.stringify(details), succeeded: details.succeeded === true },
      ...{ repository, tag },
    });
  };

  /** Checks a build that has ended: its end and its log stay as they are. */
  readonly check: Work = async (storm, { random }) => {
    const build = random.pick(this.#ended);
    if (build) await checkEnded(storm, build, random);
  };

  async checkAll(storm: Storm, { random }: Client): Promise<void> {
    await inLanes(this.#ended, build => checkEnded(storm, build, random));
  }
}

async function checkEnded(
  storm: Storm,
  build: EndedBuild,
  random: Client['random'],
): Promise<void> {
  const { http } = storm;
  const { id, end, repository, tag } = build;
  const now = JSON.stringify(await detailsOf(storm, id));
  if (now !== end) throw new Wrong(`build ${id} ended with ${end}, and again with ${now}`);
  const { body } = await http.expect(200, `/v1alpha1/builds/${id}/logs`);
  const log = body.toString();
  const { isEnded, fault } = readLog(log, lines);
  if (fault !== undefined || !isEnded) {
    throw new Wrong(`the log of build ${id}: ${fault ?? 'it has no end'}\n${log}`);
  }
  if (!build.succeeded) {
    if (!excused.test(log)) throw new Wrong(`build ${id} failed:\n${log}`);
    return;
  }
  const digest = await pullKept(http, repository, tag, random);
  if (!log.includes(` is ${digest}\n`)) {
    throw new Wrong(`the image of build ${id} is ${digest}, and its log says:\n${log}`);
  }
}

/** Follows a log until it says how the build ended. Begins again when the response breaks off, or the server stops. */
async function followToEnd(storm: Storm, { random }: Client, id: string): Promise<void> {
  for (const began = performance.now(); ; ) {
    if (performance.now() - began > longestMs) throw new Wrong(`build ${id} does not end`);
    const { text, isWhole } = random.once(2)
      ? await followAsText(storm, id)
      : await followAsEvents(storm, id);
    const { isEnded, fault } = readLog(text, lines);
    if (fault !== undefined) throw new Wrong(`a followed log of build ${id}: ${fault}\n${text}`);
    storm.tally.count(isWhole ? 'logs followed to the end' : 'follows that broke off');
    if (isEnded) return;
    await requireEndOfLog(storm, id).catch(rethrowWrong);
    await sleep(pauseMs);
  }
}

/** Throws {@link Wrong} for a build that has ended while its log has no end. */
async function requireEndOfLog(storm: Storm, id: string): Promise<void> {
  if ((await detailsOf(storm, id)).status !== 'COMPLETED') return;
  const { body } = await storm.http.expect(200, `/v1alpha1/builds/${id}/logs`);
  if (readLog(body.toString(), lines).isEnded) return;
  throw new Wrong(`build ${id} has ended, and its log has no end:\n${body}`);
}

function rethrowWrong(error: unknown): void {
  if (error instanceof Wrong) throw error;
}

interface Followed {
  readonly text: string;
  /** False for a response that broke off. */
  readonly isWhole: boolean;
}

async function followAsText(storm: Storm, id: string): Promise<Followed> {
  return readStream(storm, `/v1alpha1/builds/${id}/logs?follow=true`, 'text/plain');
}

async function followAsEvents(storm: Storm, id: string): Promise<Followed> {
  const { text } = await readStream(storm, `/v1alpha1/builds/${id}/logs`, 'text/event-stream');
  const events = text.split('\n\n');
  const isWhole = events.some(event => event.startsWith('event: end'));
  // The last event may have broken off.
  const whole = events.slice(0, -1).filter(event => event.startsWith('data: '));
  const read = whole.map(event => event.replaceAll(/^data: /gm, ''));
  return { text: read.map(line => `${line}\n`).join(''), isWhole };
}

async function readStream({ http }: Storm, path: string, accept: string): Promise<Followed> {
  let text = '';
  try {
    const response = await http.open(path, { headers: { accept } });
    if (!response.ok || !response.body) return { text, isWhole: false };
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) text += piece;
    return { text, isWhole: true };
  } catch {
    return { text, isWhole: false };
  }
}

const detailsOf = async ({ http }: Storm, id: string): Promise<Details> => {
  const { status, succeeded, digest, duration, reason } = await http.json<Details>(
    `/v1alpha1/builds/${id}`,
  );
  return { status, succeeded, digest, duration, reason } as Details;
};

/** The log is written before the build counts as ended. */
async function untilCompleted(storm: Storm, id: string): Promise<Details> {
  for (const began = performance.now(); ; ) {
    if (performance.now() - began > longestMs) throw new Wrong(`build ${id} does not end`);
    const details = await detailsOf(storm, id).catch(() => undefined);
    if (details?.status === 'COMPLETED') return details;
    await sleep(pauseMs);
  }
}
