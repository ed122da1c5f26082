/**
 * Three replicas behind nginx, PostgreSQL with a standby, an object store and two builders, which die again and again while clients work:
 * what was acknowledged is there and right, each build ran once to its end, and a sweep leaves nothing behind.
 * `STORM_ROUNDS` is the number of rounds, each with a death or two. `STORM_SEED` repeats their order.
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { Random } from '../fuzz/random.ts';
import { accounts, admin } from '../integration/hosted.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { startObjectStore } from '../world/object-store.ts';
import { startPostgres } from '../world/postgres.ts';
import { startStandby } from '../world/postgres-standby.ts';
import { startRegistry } from '../world/registry.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import { BuildWorks } from './build-works.ts';
import { checkHistory } from './check-history.ts';
import { Clients } from './clients.ts';
import { ContainerWorks } from './container-works.ts';
import { die, orderOf } from './deaths.ts';
import { History } from './history.ts';
import { Kept } from './kept.ts';
import {
  contentOf,
  deleteAll,
  imagesBuiltTwice,
  leftoversOf,
  overlookedNeeds,
  sweepSite,
  verifySite,
} from './leftovers.ts';
import { countLog } from './server-log.ts';
import type { Client, Storm, Work } from './storm.ts';
import { StormHttp } from './storm-http.ts';
import { Supervisor } from './supervisor.ts';
import { keepImage, listAgeMs, moveTag, readAllTags, readList, readTag } from './tag-works.ts';
import { Tally } from './tally.ts';

const rounds = Number(process.env.STORM_ROUNDS ?? 3);
const seed = Number(process.env.STORM_SEED ?? randomInt(1_000_000));
/** What clients must have done before the next death. */
const between = { acknowledged: 12, pushes: 3, buildsIn: 2 };
// Twice as long as an upload lives here.
const leftoverMs = 60_000;

test(`what was acknowledged survives ${rounds} rounds of deaths, seed ${seed}`, {
  timeout: 60_000 * (5 + rounds),
}, async context => {
  await using postgres = await startPostgres();
  await using standby = await startStandby(await postgres.createDatabase());
  await using store = await startObjectStore();
  await using builder = await startBuildkitd();
  await using otherBuilder = await startBuildkitd();
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full', 'busybox:oci']);
  await using replicas = await startReplicas({
    ...{ postgres, standby, store, count: 3, hasLinks: true },
    config: {
      readReplica: { maxAge: `${listAgeMs / 1000}s` },
      accounts,
      access: { builds: 'open' },
      buildkit: [builder.address, otherBuilder.address],
      registries: { [registry.host]: { plainHttp: true } },
      // Content is removed and pushed again while servers die.
      sweep: { interval: '2s', grace: '60s' },
      hosted: { uploadLife: '30s' },
    },
  });
  const site = { postgres, standby, store, builders: [builder, otherBuilder], replicas };
  const storm: Storm = {
    seed,
    http: new StormHttp(replicas.balancer.url, admin),
    ...{ tally: new Tally(), history: new History(), kept: new Kept() },
    registry: registry.host,
  };
  const { http, tally, history, kept } = storm;
  const containers = new ContainerWorks();
  const builds = new BuildWorks();
  const works: readonly Work[] = [
    ...[moveTag, moveTag, moveTag, readTag, readTag, readTag, keepImage, keepImage, readList],
    ...[containers.request, containers.read, containers.read, containers.revoke],
    ...[builds.build, builds.build, builds.check],
    function checkKept({ http }, { random }) {
      return kept.checkOne(http, random);
    },
  ];

  await using supervisor = new Supervisor(replicas, server => countLog(server, tally));
  const allRun = (when: string) => eventually(`all run ${when}`, () => supervisor.isWhole());
  const pushes = () => tally.countOf('tags pushed') + tally.countOf('images pushed');
  const clients = new Clients(storm, works);
  const random = new Random(seed);
  const order = orderOf(random);
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const before = { done: tally.acknowledged, pushes: pushes(), builds: builds.ended.length };
      const buildsWanted = round % between.buildsIn === 0 ? 1 : 0;
      const names = order.next().value as readonly string[];
      const when = `after round ${round}: ${names}`;
      await die(site, names, random);
      await allRun(when);
      await eventually(`clients go on ${when}`, () => {
        assert.deepEqual(clients.wrong, [], when);
        return (
          tally.acknowledged >= before.done + between.acknowledged &&
          pushes() >= before.pushes + between.pushes &&
          builds.ended.length >= before.builds + buildsWanted
        );
      });
      if (round % 10 === 0) console.error(`round ${round}, ${tally.acknowledged} acknowledged`);
    }
    await clients.stop();
    await allRun('at the end');
    assert.deepEqual(clients.wrong, []);
  } finally {
    await clients.stop();
    context.diagnostic(`${tally}; ${supervisor.failures.length} starts failed`);
    context.diagnostic(`refused meanwhile: ${JSON.stringify([...tally.refusals])}`);
  }

  // It may be late by a minute until now.
  await standby.crash();
  await standby.start();
  await eventually('the standby answers lists', () => usesStandby(replicas));
  const reader: Client = { number: works.length, random };
  await readList(storm, reader);
  await readAllTags(storm, reader);
  await containers.readAll(storm, reader);
  const { verdict, keys, operations, failures } = await checkHistory(history.operations);
  context.diagnostic(`${operations} operations of ${keys} keys: ${verdict}`);
  if (verdict !== 'Ok') {
    const file = join(tmpdir(), `storm-${seed}.jsonl`);
    await history.save(file);
    assert.fail(`the history in ${file} is not linearizable: ${JSON.stringify(failures)}`);
  }
  const requireAll = async () => {
    assert.deepEqual(await kept.broken(http, random), []);
    await builds.checkAll(storm, reader);
  };
  await requireAll();
  assert.deepEqual(await imagesBuiltTwice(site), []);
  assert.match(await verifySite(site), / 0 damaged, 0 missing/);
  const { overlooked, count } = await overlookedNeeds(site);
  context.diagnostic(`live requests need ${count} images and layers`);
  assert.deepEqual(overlooked, []);
  await sweepSite(site);
  await requireAll();
  // A start ends what other servers have left unfinished.
  await supervisor.stop();
  const programErrors = /^(?:\w*: 500: |log: uncaught)/;
  assert.deepEqual(
    [...tally.refusals.keys()].filter(reason => programErrors.test(reason)),
    [],
  );
  await stopAll(replicas);
  for (const at of replicas.servers.keys()) await replicas.start(at);
  const isClean = async () => (await leftoversOf(site)).length === 0;
  await eventually('nothing is left over', isClean, leftoverMs).catch(() => {});
  assert.deepEqual(await leftoversOf(site), []);
  await deleteAll(site, http);
  await stopAll(replicas);
  await sweepSite(site);
  assert.deepEqual(await contentOf(site), [], 'content that nothing refers to is gone');
});

/** A former leader may still be about to end after its last transfer. One that was started again reads from its first request on. */
async function usesStandby({ servers }: Replicas): Promise<boolean> {
  const metrics = servers.map(async server => {
    await (await server.fetch('/v2/')).arrayBuffer();
    return (await server.fetch('/metrics')).text();
  });
  const texts = await Promise.all(metrics).catch(() => ['']);
  return texts.every(text => /^sluice_read_replica_used 1$/m.test(text));
}

async function stopAll({ servers }: Replicas): Promise<void> {
  for (const server of servers) await server.stop();
}
