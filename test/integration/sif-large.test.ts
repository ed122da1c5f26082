/** A Singularity image of many files and of large ones, made in little memory. */
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

test('200,000 files and 3 GB become a Singularity image in less than 300 MB of memory', async () => {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['busybox:oci']);
  await using buildkitd = await startBuildkitd();
  await using sluice = await startSluice({
    config: {
      buildkit: [buildkitd.address],
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  const containerFile = [
    `FROM ${pushed.get('busybox:oci')?.reference}`,
    'RUN for d in $(seq 200); do mkdir -p /many/$d; for f in $(seq 1000); do echo $d/$f > /many/$d/$f; done; done',
    'RUN yes "a line of text" | head -c 3221225472 > /large',
    'CMD ["sh", "-c", "ls /many/*/ | wc -l; wc -c < /large; cat /many/7/700"]',
  ].join('\n');
  const answer = (await sluice.request({
    containerFile: Buffer.from(containerFile).toString('base64'),
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
  const output = assertSuccess(
    await apptainer.run(['run', '--no-https', answer.targetImage], { timeoutMs: 300_000 }),
  );
  // Each of the 200 directories has its name, 1,000 files and a blank line but the last.
  assert.deepEqual(output.trim().split('\n'), ['200599', '3221225472', '7/700']);
});
