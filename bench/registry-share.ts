import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Buildkitd } from '../test/world/buildkitd.ts';
import { processTreeMs } from '../test/world/processor-time.ts';
import type { Registry } from '../test/world/registry.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { buildkitDirectory } from '../test/world/tools.ts';
import type { Row } from './report.ts';
import { interleave, mean, median, ratio } from './stats.ts';

const run = promisify(execFile);
const rounds = 20;
const warmUps = 40;

/** What a registry costs when buildctl pushes a new small image to it: a hosted repository of Sluice, and docker-registry. */
export async function registryShare(registry: Registry, buildkitd: Buildkitd): Promise<Row[]> {
  await using directory = await makeTempDir('bench');
  await using sluice = await startMeasuredSluice({ config: { accounts: { bench: 'secret' } } });
  const auth = Buffer.from('bench:secret').toString('base64');
  await writeFile(
    directory.join('config.json'),
    JSON.stringify({ auths: { [sluice.host]: { auth } } }),
  );
  const context = directory.join('context');
  await mkdir(context);
  const build = async (repository: string) => {
    await writeFile(`${context}/Dockerfile`, `FROM scratch\nCOPY Dockerfile /${randomUUID()}\n`);
    await run(
      `${buildkitDirectory()}/buildctl`,
      [
        ...['--addr', buildkitd.address, 'build', '--frontend', 'dockerfile.v0'],
        ...['--local', `context=${context}`, '--local', `dockerfile=${context}`],
        ...['--output', `type=image,name=${repository}/${randomUUID()}:1,push=true`],
      ],
      { env: { ...process.env, DOCKER_CONFIG: directory.path } },
    );
  };
  const processor = { ours: [] as number[], theirs: [] as number[] };
  const measured = async (who: 'ours' | 'theirs', pid: number | undefined, host: string) => {
    const before = processTreeMs(pid);
    const began = performance.now();
    await build(`${host}/public/bench`);
    const took = performance.now() - began;
    processor[who].push(processTreeMs(pid) - before);
    return took;
  };
  for (let push = 0; push < warmUps; push += 1) await build(`${sluice.host}/public/bench`);
  const time = await interleave(
    {
      ours: () => measured('ours', sluice.process.pid, sluice.host),
      theirs: () => measured('theirs', registry.pid, registry.host),
    },
    rounds,
  );
  for (const figures of Object.values(processor)) figures.shift();
  const { ours, theirs } = processor;
  return [
    {
      what: 'A build by buildctl, pushed to Sluice : to docker-registry',
      figure: ratio(time.ours, time.theirs).toFixed(2),
      aim: '1.1',
      medians: `${Math.round(median(time.ours))} ms : ${Math.round(median(time.theirs))} ms`,
    },
    {
      what: 'the same, processor time of the registry',
      figure: (mean(ours) / mean(theirs)).toFixed(2),
      aim: '',
      medians: `${Math.round(mean(ours))} ms : ${Math.round(mean(theirs))} ms (mean)`,
    },
  ];
}
