/** The five-minute tour of the README works exactly as written. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { baseLayer } from '../corpus/base.ts';
import { amd64, imageOf, indexOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { startDocker } from '../world/docker.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { rootDirectory } from '../world/tools.ts';

const run = promisify(execFile);
const project = fileURLToPath(new URL('../..', import.meta.url));
const machinePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

test('the tour', async () => {
  const readme = await readFile(join(project, 'README.md'), 'utf8');
  const tour = readme.slice(readme.indexOf('## A five-minute tour'));
  const [script = '', curls = ''] = [...tour.matchAll(/^```sh\n(.*?)^```$/gms)].map(
    ([, text]) => text,
  );
  const promised = /The last line prints `([^`]+)`/.exec(tour)?.[1];
  assert.ok(promised, 'the README states the output of the last line');

  await using registry = await startRegistry();
  await pushAlpine(registry);
  await using sluice = await startSluice({
    config: {
      registries: {
        [registry.host]: { plainHttp: true },
        'docker.io': { mirrors: [registry.host] },
      },
    },
  });
  await using docker = await startDocker({ suite: 'bookworm' });
  await using directory = await makeTempDir('tour');
  const env = {
    HOME: directory.path,
    PATH: `${await dockerOf(docker.socket, directory.join('bin-of-docker'))}:${machinePath}`,
    // The reader's server listens at the default address of the command line.
    SLUICE_SERVER: sluice.url,
  };
  // In the project's folder, where the tour begins, except for the files that it writes.
  const cwd = directory.join('project');
  await mkdir(cwd);
  for (const name of ['package.json', 'node_modules', 'bin', 'src']) {
    await symlink(join(project, name), join(cwd, name));
  }
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { cwd, env });
  const [image = '', ...rest] = stdout.trimEnd().split('\n');
  assert.ok(
    image.startsWith(`${sluice.host}/ct/`) && image.endsWith('/library/alpine:3.20'),
    image,
  );
  assert.deepEqual(rest, [promised]);

  const byHand = curls.replaceAll('http://127.0.0.1:9090', sluice.url);
  assert.notEqual(byHand, curls);
  const { stdout: answers } = await run('bash', ['-euo', 'pipefail', '-c', byHand], { cwd, env });
  assert.match(answers, /"targetImage":"[^"]+\/library\/alpine:3\.20"/);
  assert.match(answers, /"imageName":"library\/alpine"/);
});

/** An index with the tag of the tour; the corpus has no `uname`, which the tour calls. */
async function pushAlpine(registry: Registry): Promise<void> {
  const uname = await layerOf([{ name: 'bin/uname', link: 'busybox' }]);
  const image = imageOf({ layers: [await baseLayer(), uname] });
  const pusher = await Pusher.open(registry, 'library/alpine');
  await pusher.push(indexOf([amd64(image)]), '3.20');
  await pusher.close();
}

/** A folder with the command `docker` of Debian, which talks to that engine. */
async function dockerOf(socket: string, folder: string): Promise<string> {
  const root = rootDirectory('bookworm');
  const library = `${root}/usr/lib/x86_64-linux-gnu`;
  // With the libraries of its own suite, whatever the machine has.
  const command = `${library}/ld-linux-x86-64.so.2 --library-path ${library} ${root}/usr/bin/docker`;
  await mkdir(folder);
  const script = `#!/bin/sh\nDOCKER_HOST=unix://${socket} exec ${command} "$@"\n`;
  await writeFile(join(folder, 'docker'), script);
  await chmod(join(folder, 'docker'), 0o755);
  return folder;
}
