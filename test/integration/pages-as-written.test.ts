/**
 * The shell blocks of the pages, run as they are written: those of a page one after the other, in one shell. Only addresses
 * are replaced: those of the server, of registries and of directories.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { baseLayer } from '../corpus/base.ts';
import { amd64, imageOf, indexOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { apptainerTool } from '../world/apptainer.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { pushCondaImages } from '../world/conda-image.ts';
import { program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type Docker, startDocker } from '../world/docker.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { rootDirectory } from '../world/tools.ts';

const run = promisify(execFile);
const project = fileURLToPath(new URL('../..', import.meta.url));
const machinePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Blocks that do not run here, by their first words on a page, and what runs them or why nothing does. */
const elsewhere: Readonly<Record<string, readonly (readonly [begin: string, where: string])[]>> = {
  'README.md': [['# npm:', '.ci/run; test/integration/compose.test.ts; npm run cluster']],
  'docs/backup.md': [
    ['systemctl stop', 'test/integration/migrate-site.test.ts and move-content.test.ts migrate'],
    ['pg_dump', 'programs of others'],
  ],
  'docs/builds.md': [
    ['docker compose', 'test/integration/builder-compose.test.ts'],
    ['npx sluice user add', 'as in docs/users.md'],
  ],
  'docs/compose.md': [
    ['cd deploy/compose', 'test/deploy/compose-site.test.ts, with settings of its own'],
    ['SLUICE_URL=', 'settings'],
    ['fallocate', 'a file system of the machine: test/power/object-store-cuts.test.ts mounts ext4'],
    ['docker compose down', 'the volume of a site that has one: compose-site.test.ts has none'],
    ['docker compose build setup', 'test/integration/compose.test.ts builds the image'],
    ['for replica in', 'test/deploy/compose-site.test.ts reads it'],
    ['docker compose run --rm backup', 'test/deploy/compose-site.test.ts reads it'],
    ['docker compose up --detach --wait postgres', 'test/deploy/compose-site.test.ts reads it'],
  ],
  'docs/conda.md': [
    ['sluice build --requirements', 'test/integration/python-packages.test.ts'],
    [
      'curl -s "$SLUICE_SERVER',
      'names a build of the reader: test/integration/native-conda.test.ts',
    ],
    ['pip install py-rattler', 'a program of others'],
  ],
  'docs/definition-files.md': [
    ['sluice build -f image.def . --format sif --freeze --push-to', 'test/integration/sif.test.ts'],
    ['sluice build -f image.def . --format sif --freeze --await', 'sif-bases.test.ts'],
    ['apptainer push', 'test/integration/sif-bases.test.ts'],
    ['openssl genpkey', 'test/sif signs and verifies'],
  ],
  'docs/frozen-images.md': [
    ['export APPTAINER_DOCKER', 'test/integration/sif-by-default.test.ts'],
    ['sluice credentials add', 'test/integration/platform-cli.test.ts and sif-by-default.test.ts'],
  ],
  'docs/hosted-repositories.md': [['docker login', 'asks for a password; hosted-clients.test.ts']],
  'docs/install.md': [
    ['npm ci', 'every run of the tests'],
    ['docker build', 'test/deploy builds and runs the image'],
    ['mkdir data', 'serves until it is stopped: test/deploy runs the image'],
    ['npm run pack', 'test/scripts/packages.test.ts'],
    ['export SLUICE_SERVER', 'a server of the reader: test/integration/platform-cli.test.ts'],
  ],
  'docs/kubernetes.md': [
    ['docker build', 'test/deploy builds the image'],
    ['kubectl -n sluice rollout status', 'npm run cluster waits for pods'],
    ['head -c 32', 'npm run cluster reads it'],
    ['openssl req', 'npm run cluster reads it'],
  ],
  'docs/operating.md': [
    ['SLUICE_URL=', 'serves until it is stopped: test/cli'],
    [
      'npm install --prefix',
      'serves until it is stopped: test/scripts/packages.test.ts installs it',
    ],
  ],
  'docs/r.md': [['sluice build --', 'test/integration/cran.test.ts']],
  'docs/replicas.md': [
    ['head -c 32', 'as npm run cluster reads it in docs/kubernetes.md'],
    ['SLUICE_DATABASE=', 'settings: test/world/replicas.ts'],
  ],
  'docs/scans.md': [
    ['curl https://sluice', 'test/scans/scans.test.ts'],
    ['sluice scan', 'test/scans/scans.test.ts'],
  ],
  'docs/traces.md': [['SLUICE_TRACES', 'settings']],
  'docs/users.md': [
    ['sluice token add --name cluster', 'requires a token: test/integration/platform-cli.test.ts'],
  ],
  'docs/workflows.md': [
    ['export TOWER', 'a variable of another program'],
    ['snakemake', 'a program of others'],
    ['npx sluice build --conda samtools=1.20', 'ends with programs of a cluster'],
  ],
};

interface Block {
  readonly page: string;
  readonly language: string;
  readonly text: string;
}

async function blocksOf(page: string): Promise<Block[]> {
  const text = await readFile(join(project, page), 'utf8');
  return [...text.matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms)].map(
    ([, indent = '', language = '', block = '']) => ({
      page,
      language,
      text: block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }),
  );
}

const isElsewhere = ({ page, text }: Block): boolean =>
  (elsewhere[page] ?? []).some(([begin]) => text.startsWith(begin));

const pages = globSync(['README.md', 'docs/*.md'], { cwd: project }).filter(
  page => page !== 'docs/command-line.md',
);
const allBlocks = (await Promise.all(pages.map(blocksOf))).flat();
const blocks = allBlocks.filter(({ language }) => language === 'sh');

suite('pages', () => {
  let registry: Registry;
  let channels: CondaChannels;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let docker: Docker;
  let directory: TempDir;
  let micromamba: string;

  before(async () => {
    [registry, buildkitd, docker, directory] = await Promise.all([
      startRegistry(),
      startBuildkitd(),
      startDocker({ suite: 'bookworm' }),
      makeTempDir('pages'),
    ]);
    channels = await startCondaChannels({
      'conda-forge': [program('procps-ng', '4.0'), program('bwa', '0.7.18')],
      bioconda: [program('samtools', '1.20')],
      team: [program('tool', '1.0')],
    });
    await pushImages(registry);
    const { manager } = await pushCondaImages(buildkitd.address, registry.host, {
      channelAlias: channels.url,
      pipIndex: channels.url,
    });
    micromamba = manager;
    sluice = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        builds: { privateHosts: [new URL(channels.url).host] },
        channels: channels.settings,
        registries: {
          [registry.host]: { plainHttp: true },
          'docker.io': { mirrors: [registry.host] },
        },
      },
    });
    await makeCommands(directory, { docker: docker.socket, sluice });
  });
  after(async () => {
    await sluice?.stop();
    await channels?.stop();
    await docker?.stop();
    await buildkitd?.stop();
    await directory?.remove();
    await registry?.stop();
  });

  /** Replaces the addresses of a reader by those of this test. */
  const placed = (text: string): string =>
    text
      .replaceAll(/registry\.example\.com\S+micromamba\S+/g, micromamba)
      .replaceAll('http://127.0.0.1:9090', sluice.url)
      .replaceAll(/\b(?:registry\.example\.com|quay\.io|ghcr\.io)\b/g, registry.host)
      .replaceAll('/var/lib/sluice-new', directory.join('restored'))
      .replaceAll('/var/lib/sluice', sluice.data)
      .replaceAll('/backups/', directory.join('backups/'));

  /** Runs the blocks of a page, except for those that run elsewhere; returns what they print. */
  const runPage = async (
    page: string,
    files: Readonly<Record<string, string>> = {},
    change = placed,
  ): Promise<string> => {
    const cwd = directory.join(page.replaceAll('/', '-'));
    await mkdir(cwd);
    // In the project's folder, where the README begins, except for the files that the blocks write.
    for (const name of ['package.json', 'node_modules', 'bin', 'src']) {
      await symlink(join(project, name), join(cwd, name));
    }
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(cwd, path)), { recursive: true });
      await writeFile(join(cwd, path), content);
    }
    const parts = blocks.filter(block => block.page === page && !isElsewhere(block));
    assert.ok(parts.length > 0, `${page} has a block that runs`);
    const script = change(parts.map(({ text }) => text).join('\n'));
    const env = { HOME: directory.path, PATH: `${directory.join('commands')}:${machinePath}` };
    const options = { cwd, env, maxBuffer: 2 ** 24 };
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], options);
    return stdout;
  };

  test('every block runs here, or is listed with what runs it', () => {
    const unknown = allBlocks.filter(({ language }) => language === '');
    assert.deepEqual(unknown, [], 'a block without a language may be commands');
    const ran = new Set(runs);
    const forgotten = blocks
      .filter(block => !ran.has(block.page) && !isElsewhere(block))
      .map(({ page, text }) => `${page}: ${text.split('\n')[0]}`);
    assert.deepEqual(forgotten, []);
    const unused = Object.entries(elsewhere).flatMap(([page, rows]) =>
      rows
        .filter(([begin]) => !blocks.some(one => one.page === page && one.text.startsWith(begin)))
        .map(([begin]) => `${page}: ${begin}`),
    );
    assert.deepEqual(unused, []);
  });

  const app = { 'app/Dockerfile': 'FROM alpine:3.20\nRUN apk add --no-cache jq\n' };
  const runs = [
    'README.md',
    'docs/backup.md',
    'docs/build-key.md',
    'docs/builds.md',
    'docs/conda.md',
    'docs/frozen-images.md',
    'docs/users.md',
    'docs/workflows.md',
  ];

  test('README.md', async () => {
    const promised = /The last line prints `([^`]+)`/.exec(
      await readFile(join(project, 'README.md'), 'utf8'),
    )?.[1];
    assert.ok(promised, 'it states the output of the last line of the tour');
    const [image = '', printed, ...rest] = (await runPage('README.md', app)).trimEnd().split('\n');
    assert.ok(image.startsWith(`${sluice.host}/ct/`) && image.endsWith('/library/alpine:3.20'));
    assert.equal(printed, promised);
    assert.match(rest.join('\n'), /"targetImage":"[^"]+\/library\/alpine:3\.20"/);
    assert.match(rest.join('\n'), /"imageName":"library\/alpine"/);
    assert.match(rest.join('\n'), /^oras:\/\//m, 'the name of the Singularity image');
  });

  test('docs/builds.md', async () => {
    const printed = await runPage('docs/builds.md');
    assert.match(printed, /^jq-1\.7$/m);
    assert.match(printed, new RegExp(`^${sluice.host}/ct/\\w+/team/app:`, 'm'));
    assert.match(printed, new RegExp(`^${registry.host}/mirror/biocontainers/samtools:`, 'm'));
  });

  test('docs/conda.md', async () => {
    const printed = await runPage('docs/conda.md', {
      'environment.yml': 'channels: [bioconda]\ndependencies: [samtools=1.20]\n',
      'pixi.lock': pixiLock(channels.url),
    });
    assert.match(printed, /\btool\b.*1\.0/, 'the packages of the dry run');
  });

  test('docs/frozen-images.md', async () => {
    assert.match(await runPage('docs/frozen-images.md'), /^samtools 1\.20 --version$/m);
  });

  test('docs/users.md', async () => {
    const printed = await runPage('docs/users.md', { 'password.txt': 'secret-of-ada\n' });
    assert.match(printed, /"email":"ada@example\.org"/);
    assert.doesNotMatch(printed, /secret-of-ada/);
  });

  test('docs/workflows.md', async () => {
    const printed = await runPage('docs/workflows.md', {
      'envs/mapping.yaml': 'channels: [bioconda, conda-forge]\ndependencies: [samtools, bwa]\n',
    });
    assert.match(printed, new RegExp(`^oras://${registry.host}/team/mapping:`, 'm'));
  });

  test('docs/build-key.md: the pages state the keys that the blocks print', async () => {
    const text = await readFile(join(project, 'docs/build-key.md'), 'utf8');
    const keys = (await runPage('docs/build-key.md', {}, script => script)).trim().split('\n');
    assert.equal(keys.length, 2);
    for (const key of keys) assert.ok(text.includes(key), key);
  });

  test('docs/backup.md', async () => {
    await mkdir(directory.join('backups'));
    // The last command serves the restored directory until it is stopped.
    await runPage('docs/backup.md', {}, script =>
      placed(script)
        .replace('/safe/place/secrets.key', join(sluice.data, 'secrets.key'))
        .replace(/^(SLUICE_DATA=\S+ npx sluice) serve$/m, '$1 verify'),
    );
  });
});

/** The images of the pages. The corpus has no `uname`, which the tour calls, and the image has an `apk` of its own. */
async function pushImages(registry: Registry): Promise<void> {
  const apk = '#!/bin/sh\nprintf "#!/bin/sh\\necho jq-1.7\\n" > /bin/jq\nchmod 755 /bin/jq\n';
  const more = await layerOf([
    { name: 'bin/uname', link: 'busybox' },
    { name: 'bin/apk', content: apk, mode: 0o755 },
  ]);
  const image = imageOf({ layers: [await baseLayer(), more] });
  const push = async (repository: string, tag: string) => {
    const pusher = await Pusher.open(registry, repository);
    await pusher.push(indexOf([amd64(image)]), tag);
    await pusher.close();
  };
  await push('library/alpine', '3.20');
  await push('mirror/alpine', '3.20');
  await pushDebianImage(registry, 'mirror/ubuntu', '24.04');
  await push('team/app', '1');
  await push('biocontainers/samtools', '1.20--h50ea8bc_0');
  await pushDebianImage(registry, 'library/ubuntu', '24.04');
}

/** A folder with the commands of the pages: of this project, and of Debian with that Docker engine. */
async function makeCommands(
  directory: TempDir,
  { docker, sluice }: { readonly docker: string; readonly sluice: Sluice },
): Promise<void> {
  const folder = directory.join('commands');
  await mkdir(folder);
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), `#!/bin/sh\n${text}\n`);
    await chmod(join(folder, name), 0o755);
  };
  const root = rootDirectory('bookworm');
  const library = `${root}/usr/lib/x86_64-linux-gnu`;
  // With the libraries of its own suite, whatever the machine has.
  const command = `${library}/ld-linux-x86-64.so.2 --library-path ${library} ${root}/usr/bin/docker`;
  await write('docker', `DOCKER_HOST=unix://${docker} exec ${command} "$@"`);
  // The reader's server listens at the default address of the command line, and has the default directory.
  const start = `exec ${process.execPath} ${join(project, 'bin/sluice.js')} "$@"`;
  const clients = `case "$1" in build|mirror|request) export SLUICE_SERVER=${sluice.url} ;; esac`;
  await write('sluice', `export SLUICE_DATA=${sluice.data}\n${clients}\n${start}`);
  await write('npx', 'exec "$@"');
  const apptainer = ['CACHEDIR', 'TMPDIR', 'CONFIGDIR']
    .map(name => `APPTAINER_${name}=${directory.path}`)
    .join(' ');
  await write('apptainer', `${apptainer} exec ${apptainerTool('apptainer')} "$@"`);
}

/** A lock file with one package. */
function pixiLock(url: string): string {
  return `version: 6
environments:
  default:
    channels:
    - url: ${url}/bioconda/
    packages:
      linux-64:
      - conda: ${url}/bioconda/linux-64/samtools-1.20-h1_0.conda
packages:
- conda: ${url}/bioconda/linux-64/samtools-1.20-h1_0.conda
`;
}
