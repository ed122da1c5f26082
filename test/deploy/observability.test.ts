/** The metrics of a real server, the alert rules and the dashboard that read them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { pushCorpus } from '../corpus/corpus.ts';
import { assertSuccess } from '../integration/served.ts';
import { eventually } from '../world/eventually.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { runProgram } from '../world/program.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const folder = 'deploy/prometheus';
const authorization = `Basic ${btoa('admin:secret')}`;

interface Rule {
  readonly alert: string;
  readonly expr: string;
}
interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number };
  readonly targets?: readonly { readonly expr: string }[];
}

const rules = (
  parse(readFileSync(`${folder}/alerts.yaml`, 'utf8')) as { groups: { rules: Rule[] }[] }
).groups.flatMap(group => group.rules);
const { panels } = JSON.parse(readFileSync('deploy/grafana/sluice.json', 'utf8')) as {
  readonly panels: readonly Panel[];
};
const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

suite('metrics', () => {
  let postgres: Postgres;
  let registry: Registry;
  let direct: Registry;
  let sluice: Sluice;

  before(async () => {
    [postgres, registry, direct] = await Promise.all([
      startPostgres(),
      startRegistry(),
      startRegistry(),
    ]);
    await pushCorpus(registry, ['cfg:full']);
    await pushCorpus(direct, ['cfg:full']);
    sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        registries: {
          [registry.host]: { plainHttp: true, blobs: 'relay' },
          [direct.host]: { plainHttp: true, blobs: 'cache' },
        },
        sweep: { interval: '1s' },
      },
      env: { SLUICE_DATABASE: await postgres.createDatabase() },
    });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
    await direct?.stop();
    await postgres?.[Symbol.asyncDispose]();
  });

  const metrics = async (path = '/metrics') =>
    (await sluice.fetch(path, { headers: { authorization } })).text();
  const valueIn = (page: string, series: string) => {
    const line = page.split('\n').find(line => line.startsWith(`${series} `));
    return Number(line?.slice(series.length) ?? 0);
  };
  const value = async (series: string) => valueIn(await metrics(), series);
  const pullBlobs = async ({ host }: Registry) => {
    const response: ContainerResponse = await sluice.request({
      containerImage: `${host}/corpus/cfg:full`,
    });
    const { targetImage } = response;
    const manifest = await fetch(
      sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`),
      { headers: { accept: '*/*' } },
    );
    const { layers } = (await manifest.json()) as { layers: { digest: string; size: number }[] };
    for (const { digest } of layers) {
      const blob = await fetch(sluice.at(targetImage, `blobs/${digest}`));
      await blob.arrayBuffer();
    }
    return { count: layers.length, bytes: layers.reduce((sum, { size }) => sum + size, 0) };
  };

  for (const [way, from] of [
    ['relayed', () => registry],
    ['stored', () => direct],
  ] as const) {
    test(`blobs that are ${way} are counted with their bytes`, async () => {
      const labels = `{way="${way}"}`;
      const { count, bytes } = await pullBlobs(from());
      assert.ok(count > 0);
      await eventually(
        'all are counted',
        async () => (await value(`sluice_blobs_total${labels}`)) === count,
      );
      assert.equal(await value(`sluice_blob_bytes_total${labels}`), bytes);
    });
  }

  test('regular work and connections to the database are counted', async () => {
    const sweep = 'work="remove unreferenced content"';
    await eventually(
      'a sweep has ended',
      async () => (await value(`sluice_work_runs_total{${sweep},result="done"}`)) > 0,
    );
    const last = await value(`sluice_work_last_success_seconds{${sweep}}`);
    assert.ok(Math.abs(last - Date.now() / 1000) < 600, String(last));
    // A connection may change its state between two pages, so both are read from one.
    const page = await metrics();
    const connections = 'sluice_database_connections';
    const busy = valueIn(page, `${connections}{state="busy"}`);
    const idle = valueIn(page, `${connections}{state="idle"}`);
    assert.ok(busy + idle > 0 && busy + idle <= 10, `${busy} + ${idle}`);
  });

  test('every metric of the rules, the dashboard and the documentation exists', async () => {
    const there = new Set(
      `${await metrics()}\n${await metrics('/metrics/hosts')}`.match(/(?<=^# TYPE )\S+/gm),
    );
    const page = readFileSync('docs/metrics.md', 'utf8');
    const texts = [...rules.map(({ expr }) => expr), ...queries, page];
    const named = new Set(
      texts.join('\n').match(/\b(?:sluice_\w+_\w+|sluice_builds|nodejs_\w+|process_\w+)\b/g),
    );
    const known = [...named].filter(name => there.has(name.replace(/_bucket$/, '')));
    assert.deepEqual([...named].sort(), known.sort());
    const documented = [...there].filter(name => name.startsWith('sluice_'));
    assert.deepEqual(
      documented.filter(name => !page.includes(`\`${name}\``)),
      [],
    );
    const work = [...texts.join('\n').matchAll(/work="([^"]+)"/g)].map(([, name]) => name);
    for (const name of work) assert.ok((await metrics()).includes(`work="${name}"`), name);
  });
});

suite('Prometheus', () => {
  const promtool = (args: readonly string[], cwd = folder) =>
    runProgram([requireCommand('promtool'), ...args], { cwd, env: {} });

  test('accepts the rules, and each alerts when it must and only then', async () => {
    assertSuccess(await promtool(['check', 'rules', 'alerts.yaml']));
    assertSuccess(await promtool(['test', 'rules', 'alerts.test.yaml']));
    const tests = readFileSync(`${folder}/alerts.test.yaml`, 'utf8');
    for (const { alert } of rules) assert.match(tests, new RegExp(`alertname: ${alert}\\b`));
  });

  test('accepts the configuration', async () => {
    await using directory = await makeTempDir('prometheus');
    await cp(folder, directory.path, { recursive: true });
    await writeFile(directory.join('sluice-password'), 'secret');
    assertSuccess(await promtool(['check', 'config', 'prometheus.yaml'], directory.path));
  });

  test('understands the queries of the dashboard', async () => {
    await using directory = await makeTempDir('dashboard');
    const file = directory.join('queries.yaml');
    const records = queries.map((expr, at) => ({
      record: `query_${at}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'),
    }));
    await writeFile(file, stringify({ groups: [{ name: 'dashboard', rules: records }] }));
    assertSuccess(await promtool(['check', 'rules', file], directory.path));
  });
});

test('the panels of the dashboard have their own numbers and places', () => {
  const ids = panels.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  const places = panels.map(({ gridPos: { x, y } }) => `${x} ${y}`);
  assert.equal(new Set(places).size, places.length);
  for (const { gridPos, title } of panels) assert.ok(gridPos.x + gridPos.w <= 24, title);
});
