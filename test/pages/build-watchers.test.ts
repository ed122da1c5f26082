/** The log of a build at its largest, and many watchers of one build. */
import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { get } from 'node:http';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { boundMs } from '../world/longest-block.ts';
import { mainThreadMs } from '../world/processor-time.ts';
import { startMeasuredSluice } from '../world/sluice.ts';
import { type BuildWorld, startBuildWorld } from './build-world.ts';

const asBrowser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } };

suite('a large log and many watchers', () => {
  let world: BuildWorld;

  before(async () => {
    world = await startBuildWorld({
      start: startMeasuredSluice,
      config: { limits: { connections: { perAddress: 1000 } } },
    });
  });
  after(() => world?.stop());

  test('a log of 100,000 lines is shown at once, and any line of it can be reached', async t => {
    const lines = Array.from(
      { length: 100_000 },
      (_, at) => `#7 ${(at / 1000).toFixed(3)} line ${at} <b>${'x'.repeat(70)}</b>\n`,
    );
    const timed = async (work: () => Promise<unknown>) => {
      const began = performance.now();
      await work();
      return performance.now() - began;
    };
    let id = '';
    let path = '';
    const load = async () => (await world.sluice.fetch(path, asBrowser)).text();
    const processorMs = async (work: () => Promise<unknown>) => {
      const begin = cpuMs();
      await work();
      return cpuMs() - begin;
    };
    // What else the server does in between counts as well: the best of some logs.
    let firstMs = Number.POSITIVE_INFINITY;
    for (const word of ['small', 'little', 'tiny', 'short']) {
      id = await world.build(`FROM ${world.base}\nRUN echo ${word}\n`);
      path = `/view/builds/${id}`;
      await (await world.sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text();
      // The code of the page is loaded, and the log is not.
      await load();
      await appendFile(join(world.sluice.data, 'logs/builds', `${id}.log`), lines.join(''));
      firstMs = Math.min(firstMs, await processorMs(load));
    }
    const text = await (await world.sluice.fetch(`/v1alpha1/builds/${id}/logs`)).text();
    const before = text.split('\n').length - 1 - lines.length;
    const againMs = await processorMs(load);
    assert.ok((await load()).length < 100_000);

    await using tab = await world.browser.open();
    const { page } = tab;
    const shownMs = await timed(async () => {
      await page.goto(world.sluice.url + path);
      await page.locator('.line', { hasText: 'line 99999 ' }).waitFor();
    });
    const number = before + 50_001;
    const jumpMs = await timed(async () => {
      await page.evaluate(`location.hash = '#L${number}'`);
      await page.locator(`#L${number}.marked`, { hasText: 'line 50000 ' }).waitFor();
    });
    assert.ok((await page.locator('.line').count()) < 5000);
    t.diagnostic(
      `processor time ${firstMs.toFixed()} ms, again ${againMs.toFixed()} ms; shown after ${shownMs.toFixed()} ms; jump ${jumpMs.toFixed()} ms`,
    );
    assert.ok(firstMs < boundMs(50), `${firstMs} ms`);
    assert.ok(againMs < boundMs(50), `${againMs} ms`);

    await page.locator('#find').fill('LINE 77777 ');
    await page.locator('.tools button').click();
    await page.locator('.found a').click();
    await page.locator('.line.marked', { hasText: 'line 77777 ' }).waitFor();
  });

  test('200 watchers of a build cost little more than one', async t => {
    const id = await world.build(
      `FROM ${world.base}\nRUN i=0; while [ $i -lt 120 ]; do printf '\\033[32mbeat %s\\033[0m\\n' $i; sleep 0.1; i=$((i+1)); done\n`,
    );
    const single = watch(id);
    const seen = async (watcher: Watcher, beat: number) => {
      await watcher.until(text => text.includes(`beat ${beat}<`));
    };
    await seen(single, 5);
    const costOf = async (from: number, to: number) => {
      await seen(single, from);
      const begin = cpuMs();
      await seen(single, to);
      return cpuMs() - begin;
    };
    const one = await costOf(10, 40);
    const crowd = Array.from({ length: 199 }, () => watch(id));
    await Promise.all(crowd.map(watcher => watcher.until(text => text.includes('event: lines'))));
    const all = await costOf(70, 100);
    t.diagnostic(`30 lines in 3 s: ${one} ms of processor time with one, ${all} ms with 200`);
    await Promise.all([single, ...crowd].map(watcher => watcher.ended));
    for (const watcher of crowd) {
      assert.match(watcher.text(), /beat 119<[\s\S]*event: end\n/);
      assert.match(watcher.text(), /event: state\ndata: "[^\n]*succeeded/);
    }
    // A request for each would cost 200 times as much.
    assert.ok(all < Math.max(one, 50) * 10, `${one} ms, ${all} ms`);
  });

  interface Watcher {
    readonly ended: Promise<void>;
    text(): string;
    until(isThere: (text: string) => boolean): Promise<void>;
  }

  function watch(id: string): Watcher {
    const ended = Promise.withResolvers<void>();
    let text = '';
    const checks = new Set<() => void>();
    get(`${world.sluice.url}/view/builds/${id}/events`, { agent: false }, response => {
      response.on('data', piece => {
        text += piece;
        for (const check of checks) check();
      });
      response.on('end', ended.resolve).on('error', ended.reject);
    }).on('error', ended.reject);
    return {
      ended: ended.promise,
      text: () => text,
      until: isThere =>
        new Promise(resolve => {
          const check = () => {
            if (!isThere(text)) return;
            checks.delete(check);
            resolve();
          };
          checks.add(check);
          check();
        }),
    };
  }

  const cpuMs = () => mainThreadMs(world.sluice.process.pid);
});
