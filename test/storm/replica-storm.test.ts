/**
 * Three replicas behind nginx, PostgreSQL, an object store and two builders, which die again and again while clients work:
 * what was acknowledged is there and right, each build ran once to its end, and a sweep leaves nothing behind.
 * `STORM_ROUNDS` is the number of rounds, each with a death or two. `STORM_SEED` repeats their order.
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pushCorpus } from '../corpus/corpus.ts';
import { Random } from '../fuzz/random.ts';
import { accounts, admin } from '../integration/hosted.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { startObjectStore } from '../world/object-store.ts';
import { startPostgres } from '../world/postgres.ts';
import { startRegistry } from '../world/registry.ts';
import { startReplicas } from '../world/replicas.ts';
import { BuildWorks } from './build-works.ts';
import { checkHistory } from './check-history.ts';
import { ContainerWorks } from './container-works.ts';
import { die, orderOf } from './deaths.ts';
import { History } from './history.ts';
import { Kept } from './kept.ts';
import { contentOf, deleteAll, leftoversOf, query, sweepSite, verifySite } from './leftovers.ts';
import { countLog } from './server-log.ts';
import type { Client, Storm, Work } from './storm.ts';
import { StormHttp } from './storm-http.ts';
import { Supervisor } from './supervisor.ts';
import { keepImage, moveTag, readAllTags, readTag } from './tag-works.ts';
import { Tally } from './tally.ts';
import { Wrong } from './wrong.ts';

const rounds = Number(process.env.STORM_ROUNDS ?? 5);
const seed = Number(process.env.STORM_SEED ?? randomInt(1_000_000));
/** What clients must have done before the next death. */
const between = { acknowledged: 12, pushes: 3, buildsIn: 2 };

test(`what was acknowledged survives ${rounds} rounds of deaths, seed ${seed}`, {
  timeout: 60_000 * (5 + rounds),
}, async context => {
  await using postgres = await startPostgres();
  await using store = await startObjectStore();
  await using builder = await startBuildkitd();
  await using otherBuilder = await startBuildkitd();
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full', 'busybox:oci']);
  await using replicas = await startReplicas({
    ...{ postgres, store, count: 3 },
    config: {
      accounts,
      access: { builds: 'open' },
      buildkit: [builder.address, otherBuilder.address],
      registries: { [registry.host]: { plainHttp: true } },
      // Content is removed and pushed again while servers die.
      sweep: { interval: '2s', grace: '60s' },
      hosted: { uploadLife: '30s' },
    },
  });
  const site = { postgres, store, builders: [builder, otherBuilder], replicas };
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
    ...[moveTag, moveTag, moveTag, readTag, readTag, readTag, keepImage, keepImage],
    ...[containers.request, containers.read, containers.read, containers.revoke],
    ...[builds.build, builds.build, builds.check],
    function checkKept({ http }, { random }) {
      return kept.checkOne(http, random);
    },
  ];

  const wrong: string[] = [];
  let isOver = false;
  const goOn = async (work: Work, number: number) => {
    const client = { number, random: new Random(seed + number) };
    while (!isOver) {
      try {
        await work(storm, client);
        await sleep(client.random.int(100));
      } catch (error) {
        if (error instanceof Wrong) wrong.push(error.message);
        else tally.refuse(work.name, error as Error);
        await sleep(50);
      }
    }
  };
  const supervisor = new Supervisor(replicas, server => countLog(server, tally));
  const isWhole = (what: string) => eventually(what, () => supervisor.isWhole());
  const pushes = () => tally.countOf('tags pushed') + tally.countOf('images pushed');
  const clients = works.map(goOn);
  const random = new Random(seed);
  const order = orderOf(random);
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const before = tally.acknowledged;
      const [pushesBefore, buildsBefore] = [pushes(), builds.ended.length];
      const buildsWanted = round % between.buildsIn === 0 ? 1 : 0;
      const names = order.next().value as readonly string[];
      await die(site, names, random);
      await isWhole(`all replicas run after round ${round}: ${names}`);
      if (round % 10 === 0) console.error(`round ${round}, ${tally.acknowledged} acknowledged`);
      await eventually(`more is acknowledged after round ${round}: ${names}`, () => {
        assert.deepEqual(wrong, [], `in round ${round}: ${names}`);
        return (
          tally.acknowledged >= before + between.acknowledged &&
          pushes() >= pushesBefore + between.pushes &&
          builds.ended.length >= buildsBefore + buildsWanted
        );
      });
    }
  } finally {
    isOver = true;
    await Promise.all(clients);
    await isWhole('all replicas run at the end');
    await supervisor.stop();
    context.diagnostic(`${tally}; refused meanwhile: ${JSON.stringify([...tally.refusals])}`);
    context.diagnostic(`${supervisor.failures.length} starts failed`);
  }

  const reader: Client = { number: works.length, random };
  const requireAll = async () => {
    assert.deepEqual(await kept.broken(http, random), []);
    await builds.checkAll(storm, reader);
  };
  await readAllTags(storm, reader);
  await containers.readAll(storm, reader);
  await requireAll();
  const report = await checkHistory(history.operations);
  context.diagnostic(`${report.operations} operations of ${report.keys} keys: ${report.verdict}`);
  if (report.verdict !== 'Ok') {
    const file = join(tmpdir(), `storm-${seed}.jsonl`);
    const lines = history.operations.map(operation => JSON.stringify(operation));
    await writeFile(file, `${lines.join('\n')}\n`);
    assert.fail(`the history in ${file} is not linearizable: ${JSON.stringify(report.failures)}`);
  }
  const twice = await query(
    replicas,
    'SELECT target FROM builds WHERE succeeded = 1 GROUP BY target HAVING count(*) > 1',
  );
  assert.deepEqual(twice, [], 'each image was built once');
  assert.match(await verifySite(site), / 0 damaged, 0 missing/);

  await sweepSite(site);
  await requireAll();
  // A start ends what other servers have left unfinished.
  for (const server of replicas.servers) await server.stop();
  for (const at of replicas.servers.keys()) await replicas.start(at);
  const isClean = async () => (await leftoversOf(site)).length === 0;
  await eventually('nothing is left over', isClean, 60_000).catch(() => {});
  assert.deepEqual(await leftoversOf(site), []);
  await deleteAll(site, http);
  for (const server of replicas.servers) await server.stop();
  await sweepSite(site);
  assert.deepEqual(await contentOf(site), [], 'nothing refers to any content');
  // A program error would be an answer 500.
  assert.deepEqual(
    [...tally.refusals.keys()].filter(reason => /^\w*: 500: /.test(reason)),
    [],
  );
});
