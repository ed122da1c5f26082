/**
 * Clients that pull and change images until SIGTERM, and repeat what fails, as clients of registries do:
 * `node steady-clients-program.ts <url of the balancer> <host of the site> <username:password> <repository> <tag> <pause in ms>`.
 * Prints one line of JSON at the end.
 */
import { type IncomingHttpHeaders, request } from 'node:http';
import { request as secureRequest } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

/** What clients of one kind saw. Times are those of the machine's clock (ms). */
export interface Seen {
  /** Results that clients got. */
  readonly count: number;
  /** The longest that a client repeated its request until it had a result. */
  readonly longestMs: number;
  /** How often each reason made a client repeat its request. */
  readonly failures: Readonly<Record<string, number>>;
  /** When each request failed. */
  readonly failedAt: readonly number[];
  /** What was acknowledged, and when: paths of manifests. */
  readonly acknowledged: readonly (readonly [path: string, at: number])[];
}

export interface SteadyReport {
  readonly pulls: Seen;
  readonly pushes: Seen;
  readonly changes: Seen;
  /** What was acknowledged and is not there at the end, each with the last response. */
  readonly lost: readonly string[];
}

// Longer than that of the ingress.
const connectMs = 5000;
const responseMs = 20_000;

const [url = '', host = '', account = '', repository = '', tag = '', pause = ''] =
  process.argv.slice(2);
const pauseMs = Number(pause);
const authorization = `Basic ${Buffer.from(account).toString('base64')}`;
const manifestType = 'application/vnd.oci.image.manifest.v1+json';
let hasEnded = false;
process.once('SIGTERM', () => {
  hasEnded = true;
});

interface Response {
  readonly status: number;
  readonly body: string;
  readonly headers: IncomingHttpHeaders;
}

/** Sends a request on its own connection, which the balancer leads anywhere. */
function send(method: string, path: string, headers: object, body?: string): Promise<Response> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(responseMs);
    const options = {
      ...{ method, agent: false, signal, servername: host },
      headers: { host, ...headers },
    } as const;
    const start = url.startsWith('https:') ? secureRequest : request;
    const sent = start(`${url}${path}`, options, response => {
      let text = '';
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: text, headers: response.headers }),
      );
    });
    sent.on('error', reject);
    const timer = setTimeout(() => sent.destroy(new Error('no connection')), connectMs);
    sent.on('close', () => clearTimeout(timer));
    sent.on('socket', socket => socket.once('connect', () => clearTimeout(timer)));
    sent.end(body);
  });
}

/** Repeats work that returns the path of what it has made, or throws. */
async function run(work: (round: number) => Promise<string>, lanes: number): Promise<Seen> {
  const failures: Record<string, number> = {};
  const acknowledged: [string, number][] = [];
  const failedAt: number[] = [];
  let [count, longestMs] = [0, 0];
  const lane = async (first: number) => {
    for (let round = first; !hasEnded; round += lanes) {
      const began = Date.now();
      while (!hasEnded) {
        try {
          const path = await work(round);
          count += 1;
          longestMs = Math.max(longestMs, Date.now() - began);
          if (path) acknowledged.push([path, Date.now()]);
          break;
        } catch (error) {
          const { message } = error as Error;
          failures[message] = (failures[message] ?? 0) + 1;
          failedAt.push(Date.now());
          await sleep(pauseMs);
        }
      }
      await sleep(pauseMs);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, index) => lane(index)));
  return { count, longestMs, failures, failedAt, acknowledged };
}

async function expect(what: Promise<Response>, wanted: number): Promise<string> {
  const { status, body } = await what;
  if (status !== wanted) throw new Error(`${status} ${body.slice(0, 200)}`);
  return body;
}

const manifests = `/v2/${repository}/manifests`;
const accept = { accept: manifestType };
const content = await expect(send('GET', `${manifests}/${tag}`, accept), 200);
console.log('begun');

const pull = async () => {
  await expect(send('GET', `${manifests}/${tag}`, accept), 200);
  return '';
};
const push = async (round: number) => {
  const path = `${manifests}/pushed-${round}`;
  const { mediaType } = JSON.parse(content) as { mediaType?: string };
  const headers = { authorization, 'content-type': mediaType ?? manifestType };
  await expect(send('PUT', path, headers, content), 201);
  return path;
};
const change = async (round: number) => {
  const containerImage = `${host}/${repository}:${tag}`;
  const body = { containerImage, containerConfig: { cmd: ['changed', String(round)] } };
  const headers = { authorization, 'content-type': 'application/json' };
  const found = await expect(
    send('POST', '/v1alpha2/container', headers, JSON.stringify(body)),
    200,
  );
  const { targetImage } = JSON.parse(found) as { targetImage: string };
  return `/v2${targetImage.slice(host.length).replace(/:([^:]*)$/, '/manifests/$1')}`;
};
const [pulls, pushes, changes] = await Promise.all([run(pull, 4), run(push, 1), run(change, 1)]);
/**
 * Returns why what was acknowledged cannot be read; undefined where it can. A read that fails is repeated, also one beyond the pulls that a
 * user has in a minute, but not one that finds nothing.
 */
async function whyLost(path: string): Promise<string | undefined> {
  let why = '';
  for (let attempt = 1; attempt <= 20; attempt += 1) {
    const found = await send('GET', path, accept).catch((error: Error) => error);
    if (found instanceof Error) why = found.message;
    else if (found.status === 200) return undefined;
    else {
      why = `${found.status} ${found.body.slice(0, 300)}`;
      if (found.status === 404) break;
    }
    await sleep(1000);
  }
  return why;
}

const lost: string[] = [];
for (const [path, at] of [...pushes.acknowledged, ...changes.acknowledged]) {
  const why = await whyLost(path);
  if (why !== undefined) lost.push(`${path} at ${new Date(at).toISOString()}: ${why}`);
}
const report: SteadyReport = { pulls, pushes, changes, lost };
console.log(JSON.stringify(report));
