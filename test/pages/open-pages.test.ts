/** Many pages that are open at once: what they cost the server, and what a browser can hold open. */
import assert from 'node:assert/strict';
import { get } from 'node:http';
import { after, before, suite, test } from 'node:test';
import { watchMemory } from '../../bench/resident-memory.ts';
import { eventually } from '../world/eventually.ts';
import { startMeasuredSluice } from '../world/sluice.ts';
import { type BuildWorld, startBuildWorld } from './build-world.ts';

const admin = `Basic ${Buffer.from('admin:open sesame').toString('base64')}`;
const asAdmin = { headers: { accept: 'text/html', authorization: admin } };
const megabyte = 1024 * 1024;
const mostMiB = 512;
const [compared, mostRounds] = [6, 40];

suite('many open pages', () => {
  let world: BuildWorld;

  before(async () => {
    world = await startBuildWorld({
      start: startMeasuredSluice,
      config: { accounts: { admin: 'open sesame' }, builds: { concurrent: 1 } },
    });
  });
  after(() => world?.stop());

  /** Begins a build that runs until it is cancelled, and says something all the time. */
  const endless = (word: string) =>
    world.build(
      `FROM ${world.base}\nRUN while true; do printf '\\033[32m${word} %s\\033[0m\\n' "$(date)"; sleep 0.05; done\n`,
    );
  const cancel = async (id: string) => {
    await world.sluice.fetch(`/view/builds/${id}/cancel`, { ...asAdmin, method: 'POST' });
    await world.finished(id);
  };

  test('40 pages that are loaded again and again, and 200 watchers of a build, take no more memory each time', async t => {
    const done: string[] = [];
    const containers: string[] = [];
    for (let at = 0; at < 4; at += 1) {
      const response = await world.request(
        `FROM ${world.base}\nRUN for i in $(seq 1 500); do echo "row $i ${at}"; done\n`,
      );
      done.push(response.buildId ?? '');
      containers.push(response.containerToken);
      await world.finished(response.buildId ?? '');
    }
    const running = await endless('beat');
    const waiting = await Promise.all(
      Array.from({ length: 20 }, (_, at) => world.build(`FROM ${world.base}\nRUN echo ${at}\n`)),
    );
    const image = encodeURIComponent(world.base);
    const paths = [
      ...['/', '/?by=image', '/?by=dockerfile', '/docs', '/docs/platform', '/view/login'],
      ...['/view/account', '/view/builds', '/view/builds?state=failed', '/view/repositories'],
      ...['/view/inspect', `/view/inspect?image=${image}`],
      ...['', '/pulls', '/builds', '/disk', '/limits', '/health'].map(tab => `/view/usage${tab}`),
      ...done.flatMap(id => [
        `/view/builds/${id}`,
        `/view/builds/${id}?view=steps&open=5`,
        `/view/builds/${id}?find=row`,
      ]),
      ...containers.map(token => `/view/containers/${token}`),
      ...[running, ...waiting.slice(0, 5)].map(id => `/view/builds/${id}`),
    ];
    assert.equal(paths.length, 40);

    t.after(async () => {
      for (const { leave } of watchers) leave();
      await Promise.all([running, ...waiting].map(cancel));
    });
    const watchers = [
      ...Array.from({ length: 200 }, () => watch(running)),
      ...waiting.map(id => watch(id)),
    ];
    await Promise.all(watchers.map(({ first }) => first));
    const memory = watchMemory(world.sluice.process.pid ?? 0);
    const round = async () => {
      memory.next();
      for (let count = 0; count < 5; count += 1) {
        await Promise.all(
          paths.map(async path => {
            const response = await world.sluice.fetch(path, asAdmin);
            assert.equal(response.status, 200, path);
            await response.text();
          }),
        );
      }
      return Math.max(...memory.next()) / megabyte;
    };
    const rounds: number[] = [];
    const most = (from: number, to?: number) => Math.max(...rounds.slice(from, to));
    const isFlat = () =>
      rounds.length >= 2 * compared && most(-compared) < most(-2 * compared, -compared) * 1.05;
    // Garbage is collected late in the first ones.
    while (rounds.length < mostRounds && !isFlat()) rounds.push(await round());
    memory.stop();
    t.diagnostic(`${rounds.map(Math.round).join(' ')} MiB`);
    assert.ok(isFlat(), `memory grows with each round: ${rounds.map(Math.round).join(' ')} MiB`);
    assert.ok(most(0) < mostMiB, `${most(0)} MiB`);
  });

  /** Reads the events of a build as a browser does. */
  function watch(id: string): { readonly first: Promise<void>; leave(): void } {
    const first = Promise.withResolvers<void>();
    const request = get(`${world.sluice.url}/view/builds/${id}/events`, { agent: false });
    request.on('response', response => response.on('data', first.resolve).on('error', () => {}));
    request.on('error', first.reject);
    return { first: first.promise, leave: () => request.destroy() };
  }

  test('tabs of running builds that nobody sees leave the browser its connections', async () => {
    const id = await endless('tab');
    await using tab = await world.browser.open();
    const { context } = tab;
    context.setDefaultTimeout(30_000);
    await context.addInitScript(
      "Object.defineProperty(document, 'hidden', { get: () => window.isHidden === true })",
    );
    const see = (page: typeof tab.page, isSeen: boolean) =>
      page.evaluate(
        `window.isHidden = ${!isSeen}; document.dispatchEvent(new Event('visibilitychange'))`,
      );
    const linesOf = (page: typeof tab.page) => page.locator('.line').count();
    const pages: (typeof tab.page)[] = [];
    // A browser opens six connections to a server.
    for (let count = 0; count < 8; count += 1) {
      const page = await context.newPage();
      await page.goto(`${world.sluice.url}/view/builds/${id}`);
      const before = await linesOf(page);
      await eventually('the log follows', async () => (await linesOf(page)) > before);
      await see(page, false);
      pages.push(page);
    }
    const [page] = pages;
    assert.ok(page);
    const before = await linesOf(page);
    await see(page, true);
    await eventually('the log follows again', async () => (await linesOf(page)) > before);
    await cancel(id);
    await page.locator('#state .badge.bad', { hasText: 'failed' }).waitFor();
  });
});
