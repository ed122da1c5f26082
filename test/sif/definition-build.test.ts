import assert from 'node:assert/strict';
import { createWriteStream } from 'node:fs';
import { lstat, mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { memoryTree } from '../../src/buildkit/index.ts';
import type { JsonObject } from '../../src/oci/json.ts';
import { translateDefinition } from '../../src/sif/definition.ts';
import { type BuildWorld, startBuildWorld } from '../buildkit/build-world.ts';
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
async function build(dockerfile: string, files: Record<string, string> = {}): Promise<Built> {
  const name = `built-${++builds}`;
  const archive = apptainer.join(`${name}.tar`);
  const reference = `${world.registry.host}/${name}:1`;
  await world.build({
    dockerfile,
    context: memoryTree(files),
    exporters: [
      { type: 'image', name: reference, push: true, insecure: true },
      { type: 'tar', sink: () => createWriteStream(archive) },
    ],
  });
  const tree = apptainer.join(`${name}.tree`);
  await mkdir(tree);
  output(await apptainer.runProgram(['tar', '-xf', archive, '-C', tree]));
  const { config } = await world.manifest(name, '1');
  const answer = await fetch(`${world.registry.url}/v2/${name}/blobs/${config.digest}`);
  return { tree, config: ((await answer.json()) as { config: JsonObject }).config };
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
%post
    test "$(id -u)" = 0
    test "$(pwd)" = /
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
    echo tested "$POSTED"
%help
    What it is.
%labels
    Author Jane
`);
  const { tree, config } = await build(dockerfile, { 'notes.txt': 'notes' });
  assert.equal(await readFile(join(tree, 'opt/notes.txt'), 'utf8'), 'notes');
  assert.equal(await readFile(join(tree, 'opt/program'), 'utf8'), 'compiled\n');
  assert.ok((await lstat(join(tree, 'opt/program'))).isFile());
  assert.equal(await readFile(join(tree, 'opt/document'), 'utf8'), "END\n$not \\ 'replaced'\n");
  const leftovers = (await readdir(tree)).filter(name => !/^(?:bin|etc|home|opt|tmp)$/.test(name));
  assert.deepEqual(leftovers.sort(), ['.singularity.d', 'proc', 'sys']);

  const sif = await assembleTree(apptainer, 'translated', tree, { config, definition: runtime });
  assert.equal(await run('run', sif, 'a b'), "it's hello environment a b\n");
  assert.equal(await run('exec', sif, 'sh', '-c', 'echo $TWICE'), 'set by post of environment\n');
  assert.equal(await run('test', sif), 'tested set by post of environment\n');
  assert.match(await run('run-help', sif), /What it is\./);
  assert.match(await run('inspect', sif), /^Author: Jane$/m);
  assert.match(await run('inspect', '--deffile', sif), /^Bootstrap: docker\n.*\nStage: compile$/m);
});

test('%post ends the build at the first command that fails, and takes a shell of its own', async () => {
  const failing = `Bootstrap: docker\nFrom: ${world.base}\n%post\n  false\n  true\n`;
  await assert.rejects(build(translateDefinition(failing).dockerfile), /exit code: 1/);
  const own = `Bootstrap: docker\nFrom: ${world.base}\n%post -c /bin/busybox ash -u\n  echo $0 >/said\n`;
  const { tree } = await build(translateDefinition(own).dockerfile);
  assert.match(await readFile(join(tree, 'said'), 'utf8'), /post\n$/);
});

test('files go where apptainer build puts them', async () => {
  const text = `Bootstrap: docker
From: ${world.base}
Stage: one
%files
    folder/c /data/sub/f
    folder/inner /data/more
    "with blank.txt" /data/more/

Bootstrap: docker
From: ${world.base}
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
    folder/?n* /globs/
    fold*/*
%files from one
    /bin/sh /stage/
    /bin/sh /stage/shell
    data/* /stage/all/
    /data/sub
    /data/more /stage/more
`;
  const files = { 'a.txt': 'a', 'with blank.txt': 'b', 'folder/c': 'c', 'folder/inner/d': 'd' };
  const context = apptainer.join('context');
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(context, path)), { recursive: true });
    await writeFile(join(context, path), content);
  }
  await writeFile(apptainer.join('files.def'), text);
  const sandbox = apptainer.join('sandbox');
  // The sources that are no paths are of the working directory.
  const args = ['build', '--sandbox', '--no-https', sandbox, apptainer.join('files.def')];
  output(await apptainer.run(args, { cwd: context }));
  const { tree } = await build(translateDefinition(text).dockerfile, files);
  assert.deepEqual(await filesOf(tree), await filesOf(sandbox));
});

/** What is in a tree beside what Apptainer puts there, and the link of each that is one. */
async function filesOf(tree: string): Promise<readonly string[]> {
  const entries = await readdir(tree, { recursive: true, withFileTypes: true });
  const shown = entries.map(async entry => {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(tree.length + 1);
    return entry.isSymbolicLink() ? `${name} -> ${await readlink(path)}` : name;
  });
  const usual =
    /^(?:\.|(?:environment|singularity) ->|(?:dev|proc|root|sys|var)(?:\/|$)|etc\/(?:hosts|resolv\.conf)$)/;
  return (await Promise.all(shown)).filter(name => !usual.test(name)).sort();
}

test('what apptainer inspect says of an image is what it says of its own build', async () => {
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
  const { dockerfile, runtime } = translateDefinition(text);
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

async function attributes(sif: string): Promise<Record<string, unknown>> {
  const { data } = JSON.parse(await run('inspect', '--all', sif)) as {
    data: { attributes: Record<string, unknown> };
  };
  return data.attributes;
}
