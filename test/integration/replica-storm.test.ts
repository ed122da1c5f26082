/**
 * Three replicas behind nginx, while servers, the database and the object store are killed: what was acknowledged is there and right
 * afterwards. `STORM_ROUNDS` is the number of deaths, and `STORM_SEED` repeats their order.
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { startObjectStore } from '../world/object-store.ts';
import { startPostgres } from '../world/postgres.ts';
import { startRegistry } from '../world/registry.ts';
import { startReplicas } from '../world/replicas.ts';
import type { ContainerAnswer } from '../world/sluice.ts';
import { bytesOf, type Promised, StormClient } from '../world/storm.ts';
import { accounts, admin } from './hosted.ts';

const rounds = Number(process.env.STORM_ROUNDS ?? 5);
const seed = Number(process.env.STORM_SEED ?? randomInt(1_000_000));
const acknowledgedBetween = 12;

test(`what was acknowledged survives ${rounds} deaths, seed ${seed}`, {
  timeout: 60_000 * (5 + rounds),
}, async context => {
  await using postgres = await startPostgres();
  await using store = await startObjectStore();
  await using builder = await startBuildkitd();
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full', 'busybox:oci']);
  await using replicas = await startReplicas({
    ...{ postgres, store, count: 3 },
    config: {
      accounts,
      access: { builds: 'open' },
      buildkit: [builder.address],
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  const client = new StormClient({ url: replicas.balancer.url, login: admin });
  const promised: Promised[] = [];
  const refusals = new Map<string, number>();
  const wrong: string[] = [];
  const stopping = new AbortController();

  const request = async (body: object): Promise<ContainerAnswer> => {
    const answer = await client.expect(200, '/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return JSON.parse(answer.body.toString());
  };
  const pathOf = ({ targetImage }: ContainerAnswer) =>
    `/v2${targetImage.replace(/^[^/]+/, '').replace(/:([^:/]+)$/, '/manifests/$1')}`;

  const works: Readonly<Record<string, (at: number) => Promise<void>>> = {
    async push(at) {
      await client.pushImage('team/moved', 'latest', at);
      promised.push({ kind: 'tag', repository: 'team/moved', tag: 'latest', version: at });
    },
    async keep(at) {
      await client.pushImage('team/kept', `v${at}`, at);
      if (at % 3 > 0) {
        promised.push({ kind: 'tag', repository: 'team/kept', tag: `v${at}`, version: at });
        return;
      }
      await client.expect(202, `/v2/team/kept/manifests/v${at}`, { method: 'DELETE' });
      promised.push({ kind: 'deleted', repository: 'team/kept', tag: `v${at}` });
    },
    async request(at) {
      const answer = await request({
        containerImage: `${registry.host}/corpus/cfg:full`,
        containerConfig: { env: [`AT=${at}`] },
      });
      const path = pathOf(answer);
      if (at % 4 > 0) {
        promised.push({ kind: 'container', path, digest: answer.digest });
        return;
      }
      await client.expect(200, `/container-token/${answer.containerToken}`, { method: 'DELETE' });
      promised.push({ kind: 'revoked', path });
    },
    async build(at) {
      const text = `FROM ${registry.host}/corpus/busybox:oci\nRUN echo ${seed} ${at}\n`;
      const { buildId } = await request({ containerFile: Buffer.from(text).toString('base64') });
      if (buildId) promised.push({ kind: 'build', id: buildId });
      await sleep(500);
    },
    async check() {
      await sleep(100);
      const one = promised[Math.floor(Math.random() * promised.length)];
      // A build may still run, and anything may be unavailable. Only wrong bytes are wrong now.
      const broken = one && one.kind !== 'build' ? await client.brokenBy(one) : undefined;
      if (broken && /wrong bytes|has digest|is version/.test(broken)) wrong.push(broken);
    },
  };
  const goOn = async (name: string, work: (at: number) => Promise<void>) => {
    for (let at = 1; !stopping.signal.aborted; at += 1) {
      try {
        await work(at);
      } catch (error) {
        const reason = `${name}: ${(error as Error).message.replaceAll(/[0-9a-f]{12,}|\d+-\d+/g, '*')}`;
        refusals.set(reason, (refusals.get(reason) ?? 0) + 1);
        await sleep(50);
      }
    }
  };

  const replica = (at: number) => {
    const found = replicas.servers[at];
    assert.ok(found);
    return found;
  };
  const one = async (leads: boolean): Promise<number> => {
    await eventually('one leads', async () => (await replicas.leader()) >= 0);
    const leader = await replicas.leader();
    return leads ? leader : (leader + 1) % 3;
  };
  const deaths: Readonly<Record<string, () => Promise<void>>> = {
    async 'leader killed'() {
      const at = await one(true);
      await replica(at).kill();
      await sleep(1000);
      await replicas.start(at);
    },
    async 'replica killed'() {
      const at = await one(false);
      await replica(at).kill();
      await replicas.start(at);
    },
    async 'leader stopped'() {
      const at = await one(true);
      await replica(at).stop();
      await replicas.start(at);
    },
    async 'database crashed'() {
      await postgres.crash();
      await postgres.start();
    },
    async 'store killed'() {
      await store.kill();
      await store.start();
    },
  };
  /** A supervisor: a replica that lost its lead ends, and is started again. */
  const supervise = async () => {
    for (const [at, { process }] of replicas.servers.entries()) {
      if (process.exitCode === 1) await replicas.start(at);
    }
  };

  const loops = Object.entries(works).map(([name, work]) => goOn(name, work));
  const names = Object.keys(deaths);
  const order = bytesOf(`storm ${seed}`, rounds);
  for (const [round, byte] of order.entries()) {
    const before = promised.length;
    const name = names[byte % names.length] ?? '';
    await deaths[name]?.();
    await eventually(`more is acknowledged after round ${round}: ${name}`, async () => {
      await supervise();
      return promised.length >= before + acknowledgedBetween;
    });
  }
  stopping.abort();
  await Promise.all(loops);

  await eventually('one leads', async () => {
    await supervise();
    return (await replicas.leader()) >= 0;
  });
  for (const entry of promised) {
    if (entry.kind !== 'build') continue;
    await eventually(`build ${entry.id} ends`, async () => {
      const { body } = await client.expect(200, `/v1alpha1/builds/${entry.id}/status`);
      return JSON.parse(body.toString()).status === 'COMPLETED';
    });
  }
  const broken: string[] = [...wrong];
  for (const entry of promised) {
    const reason = await client.brokenBy(entry);
    if (reason) broken.push(reason);
  }
  context.diagnostic(
    `${promised.length} acknowledged; refused meanwhile: ${JSON.stringify([...refusals])}`,
  );
  assert.deepEqual(broken, []);
  // A program error would be an answer 500.
  assert.deepEqual(
    [...refusals.keys()].filter(reason => / 500: /.test(reason)),
    [],
  );
});
