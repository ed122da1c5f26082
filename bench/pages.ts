import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pageRoutes } from '../src/pages/pages.ts';
import { pushCorpus } from '../test/corpus/corpus.ts';
import { call } from '../test/faults/http-client.ts';
import { startHostileWorld } from '../test/pages/hostile-world.ts';
import { loadFirstView } from '../test/pages/page-files.ts';
import { startBuildkitd } from '../test/world/buildkitd.ts';
import { eventually } from '../test/world/eventually.ts';
import { startRegistry } from '../test/world/registry.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import type { Part, Row } from './report.ts';
import { median } from './stats.ts';

const requests = 200;
const logLines = 100_000;
const watchers = 200;
const watchedMs = 5000;
const aim = 'under 50 ms, 100 KB';
const authorization = `Basic ${Buffer.from('admin:open sesame').toString('base64')}`;
const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';

/** (k) Time and weight of the first view of every page, of a large log, and what many watchers of a build cost. */
export async function pages(): Promise<Part[]> {
  const rows = [...(await firstViews()), await watching()];
  return [{ letter: 'k', title: 'Pages', rows }];
}

async function firstViews(): Promise<Row[]> {
  await using world = await startHostileWorld(startMeasuredSluice);
  const { url, data } = world.sluice;
  const rows: Row[] = [];
  const measure = async (what: string, path: string) => {
    const { status, html, bytes } = await loadFirstView(url, path, { authorization });
    if (status !== 200 || !html.startsWith('<!doctype html>')) return;
    const times: number[] = [];
    for (let count = 0; count < requests; count += 1) {
      const headers = { accept, authorization, 'accept-encoding': 'gzip' };
      times.push((await call(url + path, { headers })).ms);
    }
    const late = times.sort((one, other) => one - other)[Math.floor(requests * 0.95)] ?? 0;
    rows.push({
      what,
      figure: `${median(times).toFixed(1)} ms`,
      aim,
      medians: `95th of a hundred: ${late.toFixed(1)} ms; ${(bytes / 1000).toFixed(1)} KB`,
    });
  };
  for (const { path } of pageRoutes.filter(({ method }) => method === 'get')) {
    const at = world.pathOf(path);
    if (world.paths.includes(at)) await measure(`\`${path}\``, at);
  }
  for (const at of world.paths.filter(path => path.includes('?'))) {
    await eventually('nothing of the page is under way', async () => {
      const { html } = await loadFirstView(url, at, { authorization });
      return !html.includes('data-moving');
    });
    await measure(`\`${at.slice(0, at.indexOf('?'))}\` of an image`, at);
  }
  const page = '/view/builds/{buildId}';
  const lines = Array.from({ length: logLines }, (_, at) => `#7 0.1 line ${at} of a long log\n`);
  await writeFile(join(data, 'logs/builds', `${world.pathOf('{buildId}')}.log`), lines.join(''));
  await measure(`\`${page}\`, a log of ${logLines} lines`, world.pathOf(page));
  return rows;
}

async function watching(): Promise<Row> {
  await using registry = await startRegistry();
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  await using buildkitd = await startBuildkitd();
  await using sluice = await startMeasuredSluice({
    config: {
      buildkit: [buildkitd.address],
      builds: { syntax: 'builder' },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  const recipe = `FROM ${base}\nRUN for i in $(seq 300); do echo line $i; sleep 0.1; done\n`;
  const { buildId } = await sluice.request({
    containerFile: Buffer.from(recipe).toString('base64'),
  });
  const watch = () =>
    new Promise<void>((resolve, reject) => {
      const events = `${sluice.url}/view/builds/${buildId}/events`;
      const sent = get(events, { agent: false }, reply => reply.once('data', resolve).resume());
      // The server ends while they watch.
      sent.on('error', reject).on('response', reply => reply.on('error', () => {}));
    });
  const cost = async () => {
    const began = processorMs(sluice.process.pid);
    await sleep(watchedMs);
    return processorMs(sluice.process.pid) - began;
  };
  await watch();
  const one = await cost();
  await Promise.all(Array.from({ length: watchers - 1 }, watch));
  const all = await cost();
  return {
    what: `processor time while a build is watched: by ${watchers} people : by one`,
    figure: (all / one).toFixed(1),
    aim: 'what one costs',
    medians: `${all.toFixed(0)} ms : ${one.toFixed(0)} ms in ${watchedMs / 1000} s`,
  };
}

/** Returns the processor time of a program so far. Source: proc(5), utime and stime in ticks of 10 ms. */
function processorMs(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /, '');
  const [user = 0, system = 0] = fields.split(' ').slice(11, 13).map(Number);
  return (user + system) * 10;
}
