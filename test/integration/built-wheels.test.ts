/** Images with packages of pip that have no wheel: each is built by a real BuildKit, and all else needs none. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { promisify } from 'node:util';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import type { CondaPackage } from '../world/conda-package.ts';
import { pythonPackages } from '../world/conda-python.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type GitServer, startGitServer } from '../world/git-server.ts';
import { realIndex } from '../world/python-index.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { projectFiles, type SourceIndex, startSourceIndex } from '../world/source-index.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand, requireUv } from '../world/tools.ts';
import { assertSuccess } from './served.ts';

interface Planned {
  readonly name: string;
  readonly version: string;
  readonly url: string;
  readonly cached: boolean;
  readonly mustBuild?: true;
}

interface Built {
  readonly targetImage: string;
  readonly buildId: string;
}

/** Python for arm64: the beginning of a program is enough. */
const otherPython: CondaPackage = {
  ...{ name: 'python', version: '3.11.2', index: { subdir: 'linux-aarch64' } },
  files: ['bin/python', 'bin/python3.11'].map(name => ({
    ...{ name, mode: 0o755 },
    content: Buffer.from(`7f454c46020101${'00'.repeat(9)}0200b70001000000`.padEnd(128, '0'), 'hex'),
  })),
};

/** Shows what its build could use. */
const sealed = {
  name: 'sealed',
  requires: ['flit_core>=3'],
  backend: (port: number) => `
def get_requires_for_build_wheel(settings=None):
    return ["six==1.17.0"]

def build_wheel(folder, settings=None, metadata=None):
    import flit_core, six, socket
    seen = ["flit_core", "six"]
    try:
        socket.create_connection(("127.0.0.1", ${port}), timeout=5).close()
        seen.append("online")
    except OSError:
        seen.append("offline")
    return write(folder, "sealed", "seen = %r\\n" % " ".join(seen))
`,
};
const liar = {
  name: 'liar',
  backend: () => `
def build_wheel(folder, settings=None, metadata=None):
    return write(folder, "truth", "")
`,
};
/** Writes beside its wheel, where only a wheel is expected. */
const crowded = {
  name: 'crowded',
  backend: () => `
def build_wheel(folder, settings=None, metadata=None):
    for number in range(20):
        with open("/sluice-build/out/%d.whl" % number, "w") as file:
            file.write("x")
    return write(folder, "crowded", "")
`,
};

suite('packages of pip without a wheel', () => {
  let registry: Registry;
  let served: CondaChannels;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let root: Root;
  let own: SourceIndex;
  let git: GitServer;
  let commit: string;
  let baseImage: string;

  before(async () => {
    registry = await startRegistry();
    git = await startGitServer();
    const [, gitPort = ''] = git.host.split(':');
    served = await startCondaChannels({
      'conda-forge': [...pythonPackages(), otherPython, gitPackage(), ...linked(gitPort)],
    });
    await pushDebianImage(registry, 'debian');
    baseImage = `${registry.host}/debian:1`;
    commit = await git.add('tool', {
      ...projectFiles('gitty', 'word = "root"\n', [
        'Requires-Dist: idna==3.10',
        'Provides-Extra: more',
        'Requires-Dist: six==1.17.0; extra == "more"',
      ]),
      ...prefixed('py/', projectFiles('subby', 'word = "sub"\n')),
    });
    buildkitd = await startBuildkitd({ authority: git.certificates.authority });
    const { url, files, settings } = await realIndex();
    own = await startSourceIndex([sealed, liar, crowded]);
    sluice = await startSluice({
      config: {
        limits: { builds: { anonymous: 'off' } },
        registries: {
          [registry.host]: { plainHttp: true },
          [git.host]: { ca: git.certificates.authority },
        },
        channels: served.settings,
        buildkit: [buildkitd.address],
        builds: { uv: requireUv(), privateHosts: [git.host] },
        pypi: {
          'https://pypi.org/simple': { url, ...settings },
          [files]: settings,
          'https://files.pythonhosted.org': { url: files, ...settings },
          [own.url]: { allowPrivateAddress: true },
        },
      },
    });
    root = await openRoot('forky');
  });
  after(async () => {
    await root?.close();
    await own?.stop();
    await git?.stop();
    await sluice?.stop();
    await buildkitd?.stop();
    await served?.stop();
    await registry?.stop();
  });

  const request = async (lines: readonly string[], more: object = {}): Promise<Built> => {
    const environment = Buffer.from(`${lines.join('\n')}\n`).toString('base64');
    const packages = {
      type: 'CONDA',
      condaOpts: { baseImage, basePackages: '' },
      channels: ['conda-forge'],
      environment,
    };
    return (await sluice.request({ packages, ...more })) as unknown as Built;
  };
  const text = async (path: string) => (await sluice.fetch(path)).text();
  const logOf = ({ buildId }: Built) => text(`/v1alpha1/builds/${buildId}/logs?follow=true`);
  const digestOf = async ({ targetImage }: Built) => {
    const [, tag = ''] = /:([^:/]+)$/.exec(targetImage) ?? [];
    const response = await fetch(sluice.at(targetImage, `manifests/${tag}`));
    assert.equal(response.status, 200, await response.clone().text());
    return response.headers.get('docker-content-digest');
  };
  const run = async ({ targetImage }: Built, ...command: string[]) =>
    assertSuccess(await runWithPodman(root, targetImage, { command }));

  test('a package that has only a source distribution is built, and the rest needs no builder', async () => {
    const built = await request(['docopt==0.6.2', 'six==1.17.0']);
    const log = await logOf(built);
    assert.match(log, /docopt 0\.6\.2 has no wheel: it is built from docopt-0\.6\.2\.tar\.gz/, log);
    assert.match(log, /: 1 packages? and 2 of PyPI, found in /, log);
    const show = 'import docopt, six; print(docopt.__version__, docopt.__file__)';
    assert.equal(
      await run(built, 'python', '-c', show),
      '0.6.2 /opt/conda/lib/python3.11/site-packages/docopt.py\n',
    );
    const lock = await text(`/v1alpha1/builds/${built.buildId}/condalock`);
    const source =
      /\/docopt-0\.6\.2\.tar\.gz#sha256=49b3a825280bd66b3aa83585ef59c4a8c82f2c8a522dbe754a8bc8d08c85c491$/m;
    assert.match(lock, source);
    assert.doesNotMatch(lock, /sluice-built/);
    const bill = await text(`/v1alpha1/builds/${built.buildId}/sbom?format=cyclonedx`);
    assert.match(bill, /"pkg:pypi\/docopt@0\.6\.2\?file_name=docopt-0\.6\.2\.tar\.gz"/);
    const digest = await digestOf(built);
    const again = await request(lock.trimEnd().split('\n'));
    const third = await logOf(again);
    assert.equal(await digestOf(again), digest, third);
    assert.doesNotMatch(third, /is built from|load build definition/);
    const other = await request(['docopt==0.6.2', 'idna==3.10']);
    const more = await logOf(other);
    assert.match(more, /: 1 packages? and 2 of PyPI, found in /, more);
    assert.doesNotMatch(more, /is built from|load build definition/);
    assert.equal(await run(other, 'python', '-c', 'import docopt, idna; print("both")'), 'both\n');
  });

  test('a wheel for any platform serves one that the builder does not run, which is refused without it', async () => {
    const on = async (containerPlatform: string) =>
      logOf(await request(['wget==3.2'], { containerPlatform }));
    assert.match(await on('linux/arm64'), /than the builder's, which emulates none/);
    const built = /arm64: 1 packages? and 1 of PyPI, found in .*The build succeeded/s;
    assert.match(await on('linux/amd64,linux/arm64'), built);
  });

  test('what a package requires is known when it is built, also one that another package requires', async () => {
    // langdetect requires six, and feedparser requires sgmllib3k: both have a source distribution only.
    const built = await request(['langdetect==1.0.9', 'feedparser==6.0.11']);
    const log = await logOf(built);
    assert.match(log, /langdetect 1\.0\.9 has no wheel/, log);
    assert.match(log, /sgmllib3k 1\.0\.0 has no wheel/, log);
    assert.match(log, /: 1 packages? and 4 of PyPI, found in /, log);
    const show = 'import langdetect, feedparser, six; print(feedparser.__version__)';
    assert.equal(await run(built, 'python', '-c', show), '6.0.11\n');
  });

  test('a dry run names the packages that must be built, and builds none', async () => {
    const answer = (await request(['termcolor==1.1.0', 'docopt==0.6.2', 'six'], {
      dryRun: true,
    })) as unknown as { succeeded: boolean; solution: { platforms: { packages: Planned[] }[] } };
    assert.equal(answer.succeeded, true);
    const { packages = [] } = answer.solution.platforms[0] ?? {};
    const found = packages.filter(({ mustBuild }) => mustBuild);
    assert.deepEqual(
      found.map(({ name, version, cached, url }) => [name, version, cached, url.split('/').at(-1)]),
      [['termcolor', '1.1.0', false, 'termcolor-1.1.0.tar.gz']],
    );
    // It was built before.
    const docopt = packages.find(({ name }) => name === 'docopt');
    assert.equal(docopt?.cached, true);
    assert.match(docopt?.url ?? '', /docopt-0\.6\.2\.tar\.gz$/);
  });

  test('a build gets the wheels that it requires, and has no network', async () => {
    const index = `--extra-index-url ${own.url}`;
    const built = await request([index, 'sealed==1.0']);
    const log = await logOf(built);
    assert.match(log, /The build requires flit_core>=3/, log);
    assert.match(log, /The build requires six==1\.17\.0/, log);
    assert.equal(
      await run(built, 'python', '-c', 'import sealed; print(sealed.seen)'),
      'flit_core six offline\n',
    );
    assert.equal(own.connections(), 0);
    const liar = await logOf(await request([index, 'liar==1.0']));
    assert.match(
      liar,
      /The build of liar 1\.0 has made a wheel with the name "truth-1\.0-py3-none-any\.whl", which is of another project/,
      liar,
    );
    const crowd = await logOf(await request([index, 'crowded==1.0']));
    assert.match(
      crowd,
      /The build of crowded 1\.0 has written more than a wheel: "\d+\.whl"/,
      crowd,
    );
  });

  test('a build that fails is explained with its last lines', async () => {
    const failed = await logOf(await request(['PyVCF==0.6.8']));
    assert.match(
      failed,
      /The build failed: the build of pyvcf 0\.6\.8 ended with exit code 1\. Its last lines:/,
      failed,
    );
    assert.match(failed, /use_2to3 is invalid/);
  });

  test('a repository is built at its commit, and the rest needs no builder', async () => {
    const address = `git+https://${git.host}/tool`;
    const lines = [`gitty[more] @ ${address}.git@v1`, `${address}.git#subdirectory=py`];
    const planned = (await request(lines, { dryRun: true })) as unknown as {
      solution: { platforms: { packages: Planned[] }[] };
    };
    const { packages = [] } = planned.solution.platforms[0] ?? {};
    assert.deepEqual(
      packages
        .filter(({ mustBuild }) => mustBuild)
        .map(({ name, version, url }) => [name, version, url]),
      [
        ['gitty', commit, `${address}.git@${commit}`],
        ['py', commit, `${address}.git@${commit}#subdirectory=py`],
      ],
    );
    const built = await request(lines);
    const log = await logOf(built);
    assert.ok(log.includes(`is built from ${address}.git@${commit}, without a network`), log);
    assert.match(log, /: 1 packages? and 4 of PyPI, found in /, log);
    const show = `import gitty, subby, idna, six, importlib.metadata as m
print(gitty.word, subby.word, m.distribution("subby").read_text("direct_url.json"))`;
    assert.equal(
      await run(built, 'python', '-c', show),
      `root sub {"url":"https://${git.host}/tool.git","vcs_info":{"vcs":"git","commit_id":"${commit}"},"subdirectory":"py"}\n`,
    );
    const bill = await text(`/v1alpha1/builds/${built.buildId}/sbom?format=cyclonedx`);
    assert.ok(bill.includes(`pkg:pypi/gitty@1.0?vcs_url=git`), bill);
    const digest = await digestOf(built);
    for (const format of ['explicit', 'pixi', 'conda-lock']) {
      const lock = await text(`/v1alpha1/builds/${built.buildId}/lock?format=${format}`);
      assert.ok(lock.includes(commit), lock);
      assert.doesNotMatch(lock, /sluice-built/);
      const again = await request([lock.trimEnd()]);
      const repeated = await logOf(again);
      assert.equal(await digestOf(again), digest, repeated);
      assert.doesNotMatch(repeated, /is built from|load build definition/);
    }
    const pylock = [
      ...['lock-version = "1.0"', 'created-by = "test"', 'requires-python = ">=3.11"'],
      ...['[[packages]]', 'name = "gitty"', '[packages.vcs]', 'type = "git"'],
      ...[`url = "https://${git.host}/tool.git"`, `commit-id = "${commit}"`],
    ];
    const locked = await request(pylock);
    const last = await logOf(locked);
    assert.match(last, /: 1 packages? and 1 of PyPI, found in /, last);
    assert.doesNotMatch(last, /is built from/);
  });

  test('a version from tags is that of pip, and submodules are there', async () => {
    const inner = await git.add('inner', { 'inner.py': 'word = "inner"\n' });
    await git.add('tagged', {
      'pyproject.toml':
        '[build-system]\nrequires = ["setuptools>=64", "setuptools-scm>=8"]\n[project]\nname = "tagged"\ndynamic = ["version"]\n[tool.setuptools_scm]\n',
      '.gitmodules': '[submodule "inner"]\n\tpath = tagged/inner\n\turl = ../inner\n',
      'tagged/__init__.py': '',
    });
    const module = `160000,${inner},tagged/inner`;
    await git.run('tagged', 'update-index', '--add', '--cacheinfo', module);
    await git.commit('tagged', { 'more.txt': '1' });
    const before = await git.commit('tagged', { 'more.txt': '2' });
    await git.commit('tagged', { 'more.txt': '3' });
    await git.git('tagged', 'tag', 'v2');
    const line = `tagged @ git+https://${git.host}/tagged@${before}`;
    const lines = (conda: string) => ['dependencies:', ...[`- ${conda}`, '- pip:', `  - ${line}`]];
    const show = 'import importlib.metadata as m; print(m.version("tagged"))';
    const built = await request(lines('git'));
    const log = await logOf(built);
    const version = (await run(built, 'python', '-c', show)).trim();
    assert.equal(version, await versionOfPip(line, git), log);
    assert.match(version, /^2\.dev2\+g/);
    assert.equal(
      await run(built, 'python', '-c', 'import tagged.inner.inner as it; print(it.word)'),
      'inner\n',
    );
    const without = await logOf(await request(lines('python')));
    assert.match(
      without,
      /setuptools-scm>=8 takes the version from tags of the repository, and requires git: add git to the packages of Conda/,
      without,
    );
  });

  test('a repository that cannot be built is refused with the reason', async () => {
    const address = `git+https://${git.host}/tool.git`;
    const refused = (line: string) => request([line]).then(logOf).catch(String);
    assert.match(await refused(`tool @ ${address}@none`), /has no branch or tag 'none'/);
    assert.match(
      await refused(`${address}@${commit.slice(0, 9)}`),
      /write all 40 digits of a commit/,
    );
    assert.match(await refused(`tool @ ${address}`), /has made a wheel of gitty: write that name/);
    assert.match(
      await refused(`git+https://127.0.0.1:9/tool.git@${commit}`),
      /is at a loopback, private or otherwise closed network address, which is refused: the operator can allow it with 'builds\.privateHosts'/,
    );
    assert.match(
      await refused(`git+https://me:sesame@${git.host}/tool.git`),
      /contains credentials/,
    );
  });

  test('a link script runs in a step of its own, and what it changes in the environment is one layer', async () => {
    const ofConda = (...entries: string[]) => ({
      packages: {
        ...{ type: 'CONDA', condaOpts: { baseImage, basePackages: '' } },
        ...{ channels: ['conda-forge'], entries },
      },
    });
    const ask = async (body: object) => (await sluice.request(body)) as unknown as Built;
    const built = await ask(ofConda('scripted'));
    const log = await logOf(built);
    assert.match(log, /The link scripts of scripted run in a builder/, log);
    assert.doesNotMatch(log, /without a network: all run again|BuildKit makes the image/);
    const shown = await run(
      built,
      ...[
        '/bin/sh',
        '-c',
        'cat /opt/conda/share/made; ls /opt/conda/share /etc/outside 2>&1; true',
      ],
    );
    assert.match(shown, /^scripted 1 0 \/opt\/conda below\n/);
    assert.match(shown, /^made$/m);
    assert.doesNotMatch(shown, /^removed$/m);
    assert.match(shown, /'?\/etc\/outside'?: No such file/);
    const manifestOf = async (target: Built) => {
      const [, tag = ''] = /:([^:/]+)$/.exec(target.targetImage) ?? [];
      const response = await fetch(sluice.at(target.targetImage, `manifests/${tag}`));
      return (await response.json()) as { layers: { digest: string }[] };
    };
    const plain = await ask(ofConda('below'));
    const ofPlain = (await manifestOf(plain)).layers.map(({ digest }) => digest);
    const ofBuilt = (await manifestOf(built)).layers.map(({ digest }) => digest);
    // The base image, two packages, the history, and the changes.
    assert.equal(ofBuilt.length, ofPlain.length + 2);
    assert.ok(ofPlain.slice(0, 2).every(digest => ofBuilt.includes(digest)));
    const lock = await text(`/v1alpha1/builds/${built.buildId}/lock`);
    const again = await request([lock.trimEnd()]);
    const repeated = await logOf(again);
    assert.equal(await digestOf(again), await digestOf(built), repeated);
    assert.doesNotMatch(repeated, /run in a builder/);
    const planned = async (...entries: string[]) => {
      const answer = (await sluice.request({
        ...ofConda(...entries),
        dryRun: true,
      })) as unknown as {
        solution: { platforms: { packages: Planned[] }[] };
      };
      const { packages = [] } = answer.solution.platforms[0] ?? {};
      return packages.filter(({ mustBuild }) => mustBuild).map(({ name }) => name);
    };
    assert.deepEqual(await planned('scripted', 'below'), []);
    await logOf(await ask(ofConda('python=3.11')));
    assert.deepEqual(await planned('scripted', 'python=3.11'), ['scripted']);

    const online = await ask(ofConda('online'));
    const second = await logOf(online);
    assert.match(
      second,
      /A link script has failed without a network: all run again with one/,
      second,
    );
    assert.equal(await run(online, 'cat', '/opt/conda/share/fetched'), 'fetched\n');
    const failed = await logOf(await ask(ofConda('broken')));
    assert.match(
      failed,
      /The build failed: a link script ended with exit code 1\. Its last lines:/,
      failed,
    );
    assert.match(failed, /The link script of broken ended with exit code 3/);
  });
});

/** The program of this machine, as a package of Conda. */
function gitPackage(): CondaPackage {
  const content = readFileSync(requireCommand('git'));
  return {
    name: 'git',
    version: '2',
    depends: ['python'],
    files: [{ name: 'bin/git', content, mode: 0o755 }],
  };
}

/** Returns the version of a wheel that pip makes. */
async function versionOfPip(line: string, { certificates }: GitServer): Promise<string> {
  const folder = await makeTempDir('pip-wheel');
  try {
    const env = { ...process.env, GIT_SSL_CAINFO: certificates.authority, HOME: folder.path };
    const args = ['-m', 'pip', 'wheel', '--no-deps', '--wheel-dir', folder.path, line];
    await promisify(execFile)('python3', args, { env });
    const [wheel = ''] = (await readdir(folder.path)).filter(name => name.endsWith('.whl'));
    return wheel.split('-')[1] ?? '';
  } finally {
    await folder.remove();
  }
}

function linked(openPort: string): readonly CondaPackage[] {
  const script = (name: string, lines: readonly string[], more: Partial<CondaPackage> = {}) => ({
    ...{ name, version: '1', ...more },
    files: [
      { name: 'share/removed', content: 'removed\n' },
      { name: `bin/.${name}-post-link.sh`, content: `${lines.join('\n')}\n`, mode: 0o755 },
    ],
  });
  return [
    { name: 'below', version: '1', files: [{ name: 'share/below', content: 'below\n' }] },
    script(
      'scripted',
      [
        'echo "$PKG_NAME $PKG_VERSION $PKG_BUILDNUM $PREFIX $(cat $PREFIX/share/below)" > "$PREFIX/share/made"',
        'rm "$PREFIX/share/removed"',
        'echo outside > /etc/outside',
        'echo told >> "$PREFIX/.messages.txt"',
      ],
      { depends: ['below'] },
    ),
    script(
      'online',
      [
        `"$PREFIX/bin/python" -c 'import socket; socket.create_connection(("127.0.0.1", ${openPort}))' || exit 1`,
        'echo fetched > "$PREFIX/share/fetched"',
      ],
      { depends: ['python'] },
    ),
    script('broken', ['exit 3']),
  ];
}

function prefixed(prefix: string, files: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [prefix + name, text]));
}
