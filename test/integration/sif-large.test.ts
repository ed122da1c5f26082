/** Singularity images of many files and of large ones, made in little memory. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { openApptainer } from '../world/apptainer.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';
import { assertSuccess } from './served.ts';

const mostMiB = 300;

const cases = [
  {
    what: '200,000 files',
    // Of many sizes, as files are.
    step: 'RUN for d in $(seq 200); do mkdir -p /many/$d; for f in $(seq 1000); do printf "%0$((f % 900 + 9))d" $((d * 1000 + f)) > /many/$d/$f; done; done',
    command: 'ls /many/* | wc -l; cat /many/7/1',
    // Each of the 200 directories has its name, 1,000 files and a blank line but the last.
    output: '200399\n0000007001',
  },
  {
    what: '3 GB',
    step: 'RUN yes "a line of text" | head -c 3221225472 > /large',
    command: 'wc -c < /large; tail -c 15 /large',
    output: '3221225472\nxt\na line of te',
  },
];

for (const { what, step, command, output } of cases) {
  test(`an image of ${what} is converted in less than ${mostMiB} MB of memory`, async () => {
    await using registry = await startRegistry();
    const pushed = await pushCorpus(registry, ['busybox:oci']);
    await using buildkitd = await startBuildkitd();
    await using sluice = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    const base = pushed.get('busybox:oci')?.reference;
    const answer = (await sluice.request({
      containerFile: Buffer.from(`FROM ${base}\n${step}\n`).toString('base64'),
      format: 'sif',
      freeze: true,
      buildRepository: `${registry.host}/sif/large`,
    })) as unknown as { targetImage: string; buildId: string };
    const route = `/v1alpha1/builds/${answer.buildId}`;
    const log = await (await sluice.fetch(`${route}/logs?follow=true`)).text();
    const status = await (await sluice.fetch(`${route}/status`)).json();
    assert.equal((status as { succeeded: boolean }).succeeded, true, log);

    const text = await readFile(`/proc/${sluice.process.pid}/status`, 'latin1');
    const peakKiB = Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1]);
    assert.ok(peakKiB / 1024 < mostMiB, `${Math.round(peakKiB / 1024)} MiB at most`);

    await using apptainer = await openApptainer();
    const run = ['exec', '--no-https', answer.targetImage, 'sh', '-c', command];
    assert.equal(assertSuccess(await apptainer.run(run, { timeoutMs: 300_000 })), output);
  });
}
