import { Agent, request } from 'node:http';
import { pushCorpus } from '../test/corpus/corpus.ts';
import type { ObjectStore } from '../test/world/object-store.ts';
import type { Postgres } from '../test/world/postgres.ts';
import { mainThreadMs } from '../test/world/processor-time.ts';
import { startRegistry } from '../test/world/registry.ts';
import { startReplicas } from '../test/world/replicas.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import type { Row } from './report.ts';
import { interleave, median } from './stats.ts';

// Clients and names have no common factor, so each pull of a client has another name.
const names = 199;
const requests = 1500;
const atOnce = 20;
// A new process takes longer for a request, a single server most of all.
const warmUps = 8;
const rounds = 8;
const count = 4;
// Of a manifest that a replica handed on to the leader, when all of them were handed on.
const formerMs = 0.45;

/** A limit of pulls, and the clients that pull. */
const settings = [
  { limit: 'off', clients: Number.POSITIVE_INFINITY, who: 'each from a new client' },
  { limit: '250/hour', clients: Number.POSITIVE_INFINITY, who: 'each from a new client' },
  // A site of 1,000 nodes, each of which pulls 100 names in a minute.
  { limit: '6000/hour', clients: 1000, who: 'from 1000 clients' },
];

/**
 * Manifests of served names from a site of replicas, beside a single server: time of main threads for each request, once all have
 * answered thousands. Each is a pull of its own, and with a limit the leader counts it.
 */
export async function replicaManifests(postgres: Postgres, store: ObjectStore): Promise<Row[]> {
  await using registry = await startRegistry();
  const image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  const rows: Row[] = [];
  for (const { limit, clients, who } of settings) {
    const pullAll = pullerFor(clients);
    const config = {
      accounts: { bench: 'secret' },
      buildkit: 'off',
      limits: { pulls: { anonymous: limit }, requests: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    };
    await using single = await startMeasuredSluice({
      config,
      env: { SLUICE_TRUSTED_PROXIES: '1' },
    });
    await using site = await startReplicas({
      postgres,
      store,
      count,
      config,
      startServer: startMeasuredSluice,
    });
    const { servers } = site;
    const lead = await site.leader();
    const followers = servers.filter((_, at) => at !== lead);
    const [leader, follower] = [servers[lead], followers[0]];
    if (!leader || !follower) throw new Error('no replica leads');
    const ofSingle = await requestNames(single, image);
    const ofSite = await requestNames(leader, image);
    for (let at = 0; at < warmUps; at += 1) {
      await pullAll(single, ofSingle);
      for (const server of servers) await pullAll(server, ofSite);
    }

    const leaderMs: number[] = [];
    const costs = await interleave(
      {
        single: async () => (await measured([single], () => pullAll(single, ofSingle)))[0] ?? 0,
        follower: async () => {
          const [own = 0, ofLeader = 0] = await measured([follower, leader], () =>
            pullAll(follower, ofSite),
          );
          leaderMs.push(ofLeader);
          return own;
        },
        // One after the other: replicas of a site have machines of their own, and all of them together would wait for two cores.
        async site() {
          let sum = 0;
          for (const server of servers) {
            const each = await measured(servers, () => pullAll(server, ofSite));
            sum += each.reduce((all, one) => all + one, 0);
          }
          return sum / count;
        },
      },
      rounds,
    );
    const ofLeader = median(leaderMs);
    const medians = Object.entries(costs).map(
      ([name, ms]) => `${name} ${median(ms).toFixed(3)} ms`,
    );
    const [one, other] = [median(costs.single), median(costs.follower)];
    const what = `manifests, pulls.anonymous ${limit}, ${who}`;
    rows.push(
      {
        what: `${what}: a replica beside a single server`,
        figure: (other / one).toFixed(2),
        aim: 'at most 1.2',
        medians: medians.join(', '),
      },
      {
        what: `${what}: the leader, for a manifest of another replica`,
        figure: `${ofLeader.toFixed(3)} ms`,
        aim: `at most ${(formerMs / 10).toFixed(3)} ms, a tenth of what one cost that was handed on`,
        medians: `${formerMs} ms before`,
      },
      {
        what: `${what}: what ${count} replicas carry beside one server`,
        figure: ((count * one) / median(costs.site)).toFixed(1),
        aim: 'at least 3.3',
        medians: `${median(costs.site).toFixed(3)} ms of all main threads`,
      },
    );
  }
  return rows;
}

async function requestNames(server: Sluice, containerImage: string): Promise<string[]> {
  const images: string[] = [];
  while (images.length < names) {
    const containerConfig = { env: [`NUMBER=${images.length}`] };
    images.push((await server.request({ containerImage, containerConfig })).targetImage);
  }
  return images;
}

/** Returns the time of the main thread of each server for one request, in ms. */
async function measured(
  servers: readonly Sluice[],
  work: () => Promise<unknown>,
): Promise<number[]> {
  const read = () => servers.map(({ process }) => mainThreadMs(process.pid));
  const before = read();
  await work();
  return read().map((ms, at) => (ms - (before[at] ?? 0)) / requests);
}

/** Returns what pulls manifests from one server, each for the next of so many clients. */
function pullerFor(clients: number) {
  let pulls = 0;
  return async (server: Sluice, images: readonly string[]): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
    let left = requests;
    const pull = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        pulls += 1;
        const image = images[pulls % images.length] ?? '';
        const client = pulls % clients;
        const address = [10, client >> 16, client >> 8, client].map(part => part & 255).join('.');
        const url = server.at(image, `manifests/${image.split(':').at(-1)}`);
        const status = await statusOf(url, { accept: '*/*', 'x-forwarded-for': address }, agent);
        if (status !== 200) throw new Error(`${url}: ${status}`);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, pull));
    agent.destroy();
  };
}

function statusOf(url: string, headers: Record<string, string>, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    request(url, { agent, headers }, response => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0));
    })
      .once('error', reject)
      .end();
  });
}
