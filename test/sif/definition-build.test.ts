import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { directoryTree, type FileTree, memoryTree } from '../../src/buildkit/index.ts';
import { followedLinks } from '../../src/builds/solve/context/context-tree.ts';
import { translateDefinition } from '../../src/images/sif/definition/definition.ts';
import type { JsonObject } from '../../src/oci/json.ts';
import { type BuildWorld, failureOf, startBuildWorld } from '../buildkit/build-world.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Apptainer, openApptainer } from '../world/apptainer.ts';
import type { Result } from '../world/program.ts';
import { assembleTree } from './assemble.ts';

let world: BuildWorld;
let apptainer: Apptainer;
let builds = 0;

before(async () => {
  world = await startBuildWorld();
  apptainer = await openApptainer();
});

after(async () => {
  await apptainer?.remove();
  await world?.close();
});

interface Built {
  /** The directory with what is in the image. */
  readonly tree: string;
  /** The `config` member of the image config. */
  readonly config: JsonObject;
}

/** Builds a Dockerfile, and unpacks the image. */
async function build(dockerfile: string, context: FileTree = memoryTree({})): Promise<Built> {
  const name = `built-${++builds}`;
  const archive = apptainer.join(`${name}.tar`);
  const reference = `${world.registry.host}/${name}:1`;
  await world.build({
    dockerfile,
    context: followedLinks(context),
    exporters: [
      { type: 'image', name: reference, push: true, insecure: true },
      { type: 'tar', sink: () => createWriteStream(archive) },
    ],
  });
  const tree = apptainer.join(`${name}.tree`);
  await mkdir(tree);
  output(await apptainer.runProgram(['tar', '-xf', archive, '-C', tree]));
  const { config } = await world.manifest(name, '1');
  const response = await fetch(`${world.registry.url}/v2/${name}/blobs/${config.digest}`);
  return { tree, config: ((await response.json()) as { config: JsonObject }).config };
}

function output({ code, stdout, stderr }: Result): string {
  assert.equal(code, 0, stderr);
  return stdout;
}

const run = async (...args: readonly string[]) => output(await apptainer.run(args));

test('a translated definition file builds, and its image runs as the file says', async () => {
  const { dockerfile, runtime } = translateDefinition(`
Bootstrap: docker
From: ${world.base}
Stage: compile
%post
    mkdir -p /made/inner && echo compiled >/made/inner/program
    ln -s /made/inner/program /made/link

Bootstrap: docker
From: {{ IMAGE }}
%arguments
    IMAGE=${world.base}
    GREETING=it's "hello"
%files
    notes.txt /opt/
%files from compile
    /made/link /opt/program
%setup
    # Outside of the image.
    mkdir -p \${SINGULARITY_ROOTFS}/opt/set "$APPTAINER_ROOTFS/opt/up"
    cp *.txt \`dirname $SINGULARITY_BUILDDEF\`/notes.txt $SINGULARITY_ROOTFS/opt/set/
%pre
%files
    notes.txt /tmp/copied
%post
    test "$(id -u)" = 0
    test "$(pwd)" = /
    for directory in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
        echo ":$PATH:" | grep -q ":$directory:"
    done
    test -L /environment && test -d /.singularity.d/libs
    echo 'export WRITTEN="in post"' >>/environment
    echo "Key value of post" >>"$APPTAINER_LABELS"
    grep notes /tmp/copied
    test "$(stat -c %a /tmp /var/tmp | sort -u)" = 1777
    touch /tmp/made /var/tmp/made
    echo 'export POSTED="set by post of $BASE"' >>"$APPTAINER_ENVIRONMENT"
    echo 'export TWICE="$POSTED"' >>"$SINGULARITY_ENVIRONMENT"
    cat <<'EOF' >/opt/document
END
$not \\ 'replaced'
EOF
%environment
    export BASE=environment
%runscript
    echo "{{ GREETING }}" "$BASE" "$@"
%test
    test "$(pwd)" = /
    test "$POSTED $WRITTEN" = "set by post of environment in post"
    touch /left-by-test
    echo tested "$POSTED"
%help
    What it is.
%labels
    Author Jane
`);
  const { tree, config } = await build(dockerfile, memoryTree({ 'notes.txt': 'notes' }));
  assert.equal(await readFile(join(tree, 'opt/notes.txt'), 'utf8'), 'notes');
  assert.equal(await readFile(join(tree, 'opt/program'), 'utf8'), 'compiled\n');
  assert.ok((await lstat(join(tree, 'opt/program'))).isFile());
  assert.deepEqual((await readdir(join(tree, 'opt/set'))).sort(), ['notes.txt']);
  assert.deepEqual(await readdir(join(tree, 'opt/up')), []);
  assert.deepEqual(await readdir(join(tree, 'tmp')), ['copied']);
  assert.equal(await readFile(join(tree, 'opt/document'), 'utf8'), "END\n$not \\ 'replaced'\n");
  const leftovers = (await readdir(tree)).filter(name => !/^(?:bin|etc|home|opt|tmp)$/.test(name));
  assert.deepEqual(leftovers.sort(), [
    ...['.build.labels', '.singularity.d', 'environment', 'proc', 'sys'],
  ]);
  assert.deepEqual((await readdir(join(tree, '.singularity.d'))).sort(), [
    ...['actions', 'env', 'libs'],
  ]);

  const sif = await assembleTree(apptainer, 'translated', tree, { config, definition: runtime });
  assert.equal(await run('run', sif, 'a b'), "it's hello environment a b\n");
  assert.equal(await run('exec', sif, 'sh', '-c', 'echo $TWICE'), 'set by post of environment\n');
  assert.equal(await run('test', sif), 'tested set by post of environment\n');
  assert.match(await run('run-help', sif), /What it is\./);
  assert.match(await run('inspect', sif), /^Author: Jane$/m);
  assert.match(await run('inspect', sif), /^Key: value of post$/m);
  assert.equal(await run('exec', sif, 'sh', '-c', 'echo $WRITTEN; ls -a /'), `in post\n${listed}`);
  assert.match(await run('inspect', '--deffile', sif), /^Bootstrap: docker\n.*\nStage: compile$/m);
});

const listed = [
  ...['.', '..', '.exec', '.run', '.shell', '.singularity.d', '.test', 'bin', 'dev', 'environment'],
  ...['etc', 'home', 'opt', 'proc', 'root', 'singularity', 'sys', 'tmp', 'var'],
]
  .map(name => `${name}\n`)
  .join('');

test('apps equal those of an image of apptainer build', async () => {
  const text = `Bootstrap: docker
From: ${world.base}
%appfiles count
    a.txt bin/
    a.txt
    folder/c .
%appinstall count
    test "$(pwd)" = /scif/apps/count
    echo "$SCIF_APPNAME" >installed
%appenv count
    export COUNT=1
%apprun count
    echo "run $COUNT $SCIF_APPROOT $PATH" "$@"
%apptest count
    echo "test $COUNT"
%apphelp count
    Counts.
%applabels count
    Version 1.0
%appstart other-app
    sleep 10
%runscript
    echo no app $SCIF_APPROOT_count $SCIF_APPSTART_other_app
`;
  const { dockerfile, runtime } = translateDefinition(text);
  const { tree, config } = await build(dockerfile, memoryTree({ 'a.txt': 'a', 'folder/c': 'c' }));
  assert.deepEqual(
    (await readdir(join(tree, 'scif'), { recursive: true }))
      .filter(name => !/\/scif/.test(name))
      .sort(),
    [
      ...['apps', 'apps/count', 'apps/count/a.txt', 'apps/count/bin', 'apps/count/bin/a.txt'],
      ...['apps/count/c', 'apps/count/installed', 'apps/count/lib', 'apps/other-app'],
      ...['apps/other-app/bin', 'apps/other-app/lib', 'data', 'data/count', 'data/count/input'],
      ...['data/count/output', 'data/other-app', 'data/other-app/input', 'data/other-app/output'],
    ],
  );
  const sif = await assembleTree(apptainer, 'apps', tree, { config, definition: runtime });
  const paths = '/scif/apps/count/bin:/scif/apps/count:';
  assert.ok(
    (await run('run', '--app', 'count', sif, 'a')).startsWith(`run 1 /scif/apps/count ${paths}`),
  );
  assert.equal(
    await run('run', sif),
    'no app /scif/apps/count /scif/apps/other-app/scif/startscript\n',
  );
  assert.equal(await run('test', '--app', 'count', sif), 'test 1\n');
  assert.equal(
    await run('exec', '--app', 'count', sif, 'sh', '-c', 'cat $SCIF_APPROOT/installed'),
    'count\n',
  );
  assert.match(await run('run-help', '--app', 'count', sif), /Counts\./);
  assert.equal((await run('inspect', '--list-apps', sif)).trim(), 'count\nother-app');
  assert.match(await run('inspect', '--app', 'count', sif), /Version: 1\.0/);
});

test('%test ends the build when it fails, and can be disabled', async () => {
  const text = `Bootstrap: docker\nFrom: ${world.base}\n%environment\n  export SET=3\n%test\n  exit $SET\n`;
  await assert.rejects(build(translateDefinition(text).dockerfile), /exit code: 3/);
  await build(translateDefinition(text, { runsTest: false }).dockerfile);
});

test('%test gets the variables that Apptainer gives it, whatever the shell of the image knows', async () => {
  const text = `Bootstrap: docker
From: ${world.base}
%post
    echo 'export SOURCED=1' >/variables
%environment
    . /missing
    source /also/missing; source /variables
    export AFTER=2
    [[ "$SOURCED" == 1 && -z "$UNSET" ]] && export TESTED=3
    [[ abc = a* && -z "$NEVER" ]] || export TESTED=no
    named() { export NAMED=$1; }; named 4
    export LISTED="\${LISTED:-5}" SUM=$((2 * 3))
%test
    echo "found $SOURCED$AFTER$TESTED$NAMED$LISTED$SUM"
    [[ "$TESTED" = 3 ]] && test "$SOURCED$AFTER$TESTED$NAMED$LISTED$SUM" = 123456
`;
  const { dockerfile, runtime } = translateDefinition(text);
  const { tree, config } = await build(dockerfile);
  const sif = await assembleTree(apptainer, 'variables', tree, { config, definition: runtime });
  assert.match(await run('test', sif), /found 123456/);
});

test('%post ends the build at the first command that fails, and may use its own shell', async () => {
  const failing = `Bootstrap: docker\nFrom: ${world.base}\n%post\n  false\n  true\n`;
  await assert.rejects(build(translateDefinition(failing).dockerfile), /exit code: 1/);
  const own = `Bootstrap: docker\nFrom: ${world.base}\n%post -c /bin/busybox ash -u\n  echo $0 >/said\n`;
  const { tree } = await build(translateDefinition(own).dockerfile);
  assert.match(await readFile(join(tree, 'said'), 'utf8'), /post\n$/);
});

test('files are copied to the same places as by apptainer build', async () => {
  const text = `Bootstrap: docker
From: ${world.base}
Stage: one
%files
    folder/c /data/sub/f
    folder/inner /data/more
    "with blank.txt" /data/more/

Bootstrap: docker
From: ${world.base}
%setup
    mkdir -p $APPTAINER_ROOTFS/existing/tool $APPTAINER_ROOTFS/srv "$APPTAINER_ROOTFS/a blank"
    touch $APPTAINER_ROOTFS/existing/file
    chmod 600 $APPTAINER_ROOTFS/existing/file
    ln -s /existing $APPTAINER_ROOTFS/absolute
    ln -s ../existing $APPTAINER_ROOTFS/srv/relative
    ln -s /made/later $APPTAINER_ROOTFS/dangling
%files
    a.txt
    a.txt /home
    a.txt /etc/other
    ./a.txt home/user/relative
    "with blank.txt" "/srv/with blank.txt"
    folder /mnt/
    folder /home/user/new
    folder /etc
    folder/inner relative
    . /all
    *.txt /texts/
    top /linked
    folder/?n* /globs/
    fold*/*
    * /srv
    [!x].csv /negated/
    [^x].csv /also-negated/
    [x-z].csv /ranges/
    [[:alpha:]].csv /classes/
    [yx].csv /last-wins
    .h* /hidden
    .[a-z]* /srv/hidden/
    ?.csv /singles/
    f*r/i*/d /two/
    folder/* /existing
    private /existing
    private /existing/other
    private/ /existing/slash
    private/ /existing/slash
    private/. /existing/tool
    private/* /kept/
    bin /opt/tool
    src /opt/tool
    src/run.sh /opt/tool
    b?n /opt/pattern
    s?c /opt/pattern
    bin /existing/tool
    src /existing/tool
    bin/run.sh /existing/file
    a.txt /absolute
    folder /absolute/below
    a.txt /srv/relative/here
    a.txt /dangling
    a.txt "/a blank/"
    a.txt "/an other/blank"
    \`pwd\`/a.txt /where/
    $PWD/folder/c /where/else
    wide /modes/
    wide/program /modes/program
    folder/inner/ /deep/er/inner/
    top/d /through-link
    top/* /through/
    x.csv /ignored # comment
    {a,x}.{txt,csv} /braces/
    "{y,x}.csv" /last-of-braces
    {bin,src} /braces/tool
    n{1..3} /range/
    {folder/{c,inner/{d,up}},n{c..a}} /nested/
    {*.txt,[!x].csv} /patterns-in-braces/
    x{a,b /open/
    {q} /single/
    {{y,x}.csv,a{,.b}} /inner/
    a.txt /{literal,braces}/
%files from one
    /data/{more,sub} /braces-of-stage/
    /bin/sh /stage/
    /bin/sh /stage/shell
    data/* /stage/all/
    /data/sub
    /data/more /stage/more
    /data/m[!x]re /stage/more
    /data/more/ /stage/more
    /data/more/*.txt
    /data/./more /existing-of-stage/
`;
  const files = {
    ...{ 'a.txt': 'a', 'with blank.txt': 'b', 'folder/c': 'c', 'folder/inner/d': 'd' },
    ...{ 'x.csv': 'x', 'y.csv': 'y', '!.csv': '!', '.hid': 'h', 'folder/.hidden': 'h' },
    ...{ 'private/key': 'k', 'private/sub/.s': 's', 'bin/run.sh': '1', 'src/run.sh': '2' },
    ...{ 'src/only': 'o', 'wide/program': 'p', n1: '1', n2: '2', n3: '3', na: 'a', nb: 'b' },
    ...{
      nc: 'c',
      'x{a,b': 'open',
      '{q}': 'single',
      'a.csv': 'a',
      'x.txt': 'x',
      a: 'a',
      'a.b': 'a.b',
    },
  };
  const modes = {
    ...{ private: 0o700, 'private/sub': 0o750, 'private/key': 0o600, wide: 0o777 },
    'wide/program': 0o777,
  };
  const context = apptainer.join('context');
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(context, path)), { recursive: true });
    await writeFile(join(context, path), content);
  }
  for (const [path, mode] of Object.entries(modes)) await chmod(join(context, path), mode);
  const links = { 'folder/link': 'inner/d', 'folder/inner/up': '../c', top: 'folder/inner' };
  for (const [path, target] of Object.entries(links)) await symlink(target, join(context, path));
  await writeFile(apptainer.join('files.def'), text);
  const sandbox = apptainer.join('sandbox');
  // The sources that are no paths are of the working directory.
  const args = ['build', '--sandbox', '--no-https', sandbox, apptainer.join('files.def')];
  output(await apptainer.run(args, { cwd: context }));
  const { tree } = await build(translateDefinition(text).dockerfile, directoryTree(context));
  assert.deepEqual(await filesOf(tree), await filesOf(sandbox));
});

test('files are copied to a stage that begins with nothing', async () => {
  const text = `Bootstrap: docker\nFrom: ${world.base}\nStage: one\n
Bootstrap: scratch\n%files\n  a /\n  a /made/b\n  a /made\n  d/ /d\n%files from one\n  /bin/busybox /bin/sh\n`;
  const context = memoryTree({ a: 'a', 'd/x': 'x' });
  const { tree } = await build(translateDefinition(text).dockerfile, context);
  const names = (await readdir(tree, { recursive: true })).sort();
  assert.deepEqual(names, ['a', 'bin', 'bin/sh', 'd', 'd/x', 'made', 'made/a', 'made/b']);
});

test('files that apptainer build cannot copy are refused with their line', async () => {
  const context = apptainer.join('refused');
  for (const path of ['e', 'z']) await mkdir(join(context, path), { recursive: true });
  for (const path of ['a', 'e/x', 'z/x']) await writeFile(join(context, path), path);
  await symlink('nowhere', join(context, 'z/nothing'));
  for (const [line, message] of [
    ['*.nothing /x', /line 4: '\*\.nothing' does not match a file/],
    ['missing /x', /line 4: 'missing' does not match a file/],
    ['* /new', /line 4: '\*' cannot be copied/],
    ['z /x', /line 4: 'z\/nothing' is a link to nothing/],
    ['{a,missing} /x/', /line 4: 'missing' does not match a file/],
    ['{a} /x/', /line 4: '\{a\}' does not match a file/],
    ['a /bin/sh/x', /line 4: '\/bin\/[^']*' cannot be made/],
  ] as const) {
    const text = `Bootstrap: docker\nFrom: ${world.base}\n%files\n  ${line}\n`;
    await writeFile(apptainer.join('refused.def'), text);
    const args = ['--no-https', apptainer.join('refused.sandbox'), apptainer.join('refused.def')];
    const { code } = await apptainer.run(['build', '--sandbox', ...args], { cwd: context });
    assert.notEqual(code, 0, line);
    const { dockerfile } = translateDefinition(text);
    const error = await failureOf(build(dockerfile, directoryTree(context)));
    assert.match(error.lastLogLines.join('\n'), message, line);
  }
});

/** Returns the content of a tree without Apptainer's own files, and the targets of its links. */
async function filesOf(tree: string): Promise<readonly string[]> {
  const entries = await readdir(tree, { recursive: true, withFileTypes: true });
  const shown = entries.map(async entry => {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(tree.length + 1);
    if (entry.isSymbolicLink()) return `${name} -> ${await readlink(path)}`;
    const mode = ((await lstat(path)).mode & 0o7777).toString(8);
    return entry.isFile() ? `${name} ${mode} ${await hashOf(path)}` : `${name} ${mode}`;
  });
  const usual =
    /^(?:\.|(?:environment|singularity) ->|(?:dev|proc|root|sys|var)[ /]|etc\/(?:hosts|resolv\.conf) )/;
  return (await Promise.all(shown)).filter(name => !usual.test(name)).sort();
}

test('apptainer inspect prints the same as for its own build', async () => {
  const pushed = await pushCorpus(world.registry, ['cfg:full']);
  const text = `# Comment
Bootstrap: docker
From: ${pushed.get('cfg:full')?.reference} # more
Stage: last
%arguments
    NAME=bob
    GREETING=hi {{ NAME }}
%labels
    Author  "{{ NAME }}" <b>
    org.example.name replaced
    Single
    # not {{ UNDEFINED }}
%environment
    export GREETING='{{ GREETING }}'
%runscript
    #!/bin/sh -e
    echo run "$@"
%startscript
    sleep 100
%help
    Some help

%test -c /bin/true
    true
`;
  const file = apptainer.join('inspected.def');
  await writeFile(file, text);
  const sif = apptainer.join('inspected.sif');
  await run('build', '--no-https', '--notest', sif, file);
  const { dockerfile, runtime } = translateDefinition(text, { runsTest: false });
  const { tree, config } = await build(dockerfile);
  const own = await assembleTree(apptainer, 'own', tree, { config, definition: runtime });
  const [theirs, ours] = [await attributes(sif), await attributes(own)];
  for (const name of ['runscript', 'startscript', 'test', 'helpfile', 'deffile']) {
    assert.equal(ours[name], theirs[name], name);
  }
  const differing = /build-date$|apptainer\.version$/;
  const labels = ({ labels }: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(labels as object).filter(([name]) => !differing.test(name)));
  assert.deepEqual(labels(ours), labels(theirs));
  assert.deepEqual(
    Object.keys(ours.environment as object),
    Object.keys(theirs.environment as object),
  );
  assert.equal(await run('exec', own, 'sh', '-c', 'echo $GREETING'), 'hi bob\n');
});

async function hashOf(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
}

async function attributes(sif: string): Promise<Record<string, unknown>> {
  const { data } = JSON.parse(await run('inspect', '--all', sif)) as {
    data: { attributes: Record<string, unknown> };
  };
  return data.attributes;
}
