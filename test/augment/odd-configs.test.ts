import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  architectureOf,
  changeConfig,
  type ImageChange,
  type InjectedLayer,
  mergeEnv,
} from '../../src/images/augment/image-config.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';

const layer: InjectedLayer = {
  gzipDigest: digestOf('gzip'),
  gzipSize: 4,
  tarDigest: digestOf('tar'),
};
const created = '1970-01-01T00:00:00Z';
const entryOfLayer = `{"created":"${created}","created_by":"sluice: injected layer ${layer.gzipDigest}"}`;
const filler = `{"created":"${created}"}`;

/** Returns the rewritten text of a config. */
function changed(text: string, change: ImageChange, baseLayers = 0): string {
  return String(changeConfig(Buffer.from(text), change, change.layers ?? [], baseLayers));
}

const runtime = (text: string, change: ImageChange) =>
  changed(`{"config":${text}}`, change).slice('{"config":'.length, -1);

test('configs: given values replace those of the base, also empty values', () => {
  const base = '{"Entrypoint":["/a"],"Cmd":["b"],"WorkingDir":"/c"}';
  assert.equal(
    runtime(base, { entrypoint: [], cmd: [], workingDir: '' }),
    '{"Entrypoint":[],"Cmd":[],"WorkingDir":"","Env":["SLUICE_ENTRY_CHAIN=[\\"/a\\"]","WAVE_ENTRY_CHAIN=/a"]}',
  );
  assert.equal(runtime(base, { env: [] }), base);
});

test('configs: the command stays if only the entrypoint is replaced', () => {
  assert.equal(
    runtime('{"Cmd":["b"],"Entrypoint":null}', { entrypoint: ['/a'] }),
    '{"Cmd":["b"],"Entrypoint":["/a"]}',
  );
});

for (const text of ['null', '[]', '"text"', '1.10', 'true']) {
  test(`configs: a config member that is ${text} counts as empty`, () => {
    assert.equal(runtime(text, { env: ['A=1'] }), '{"Env":["A=1"]}');
    assert.equal(
      changed(`{"config":${text}}`, { layers: [layer] })
        .slice(0, -1)
        .split(',')[0],
      `{"config":${text}`,
      'and stays when nothing of it is changed',
    );
  });
}

test('configs: members in another letter case are read as Go reads them', () => {
  assert.equal(
    runtime('{"env":["PATH=/bin","A=0"],"entrypoint":["/own"],"cmd":["x"],"WORKINGDIR":"/"}', {
      entrypoint: ['/given'],
      cmd: ['y'],
      env: ['A=1'],
      workingDir: '/w',
    }),
    '{"env":["PATH=/bin","A=1","SLUICE_ENTRY_CHAIN=[\\"/own\\"]","WAVE_ENTRY_CHAIN=/own"],"entrypoint":["/given"],"cmd":["y"],"WORKINGDIR":"/w"}',
  );
  assert.equal(
    runtime('{"Env":["A=0"],"env":["B=0"]}', { env: ['C=1'] }),
    '{"Env":["A=0"],"env":["B=0","C=1"]}',
  );
  assert.equal(
    changed(
      '{"Config":{},"RootFS":{"Diff_IDs":["x"]},"History":[{}]}',
      { workingDir: '/', layers: [layer] },
      1,
    ),
    `{"Config":{"WorkingDir":"/"},"RootFS":{"Diff_IDs":["x","${layer.tarDigest}"]},"History":[{},${entryOfLayer}]}`,
  );
});

test('configs: the architecture is read in any letter case and spelling', () => {
  const architecture = (text: string) => architectureOf(Buffer.from(text));
  assert.equal(architecture('{"architecture":"amd64"}'), 'amd64');
  assert.equal(architecture('{"Architecture":"aarch64"}'), 'arm64');
  assert.equal(architecture('{"architecture":"riscv64"}'), 'riscv64');
  for (const text of ['{}', '{"architecture":""}', '{"architecture":null}', '{"architecture":1}']) {
    assert.equal(architecture(text), undefined, text);
  }
});

test('entry chain: an image that already starts with the given entrypoint keeps its chain', () => {
  const once = runtime('{"Entrypoint":["/own","-x"],"Env":null}', { entrypoint: ['/given'] });
  assert.equal(runtime(once, { entrypoint: ['/given'] }), once);
  assert.equal(
    runtime(once, { entrypoint: ['/other'] }),
    '{"Entrypoint":["/other"],"Env":["SLUICE_ENTRY_CHAIN=[\\"/given\\"]","WAVE_ENTRY_CHAIN=/given"]}',
    'the last one replaced counts',
  );
});

test('entry chain: absent without a previous entrypoint, and without a given one', () => {
  for (const own of ['null', '[]', '{}', '1']) {
    assert.equal(
      runtime(`{"Entrypoint":${own}}`, { entrypoint: ['/a'] }),
      '{"Entrypoint":["/a"]}',
      own,
    );
  }
  const base = '{"Entrypoint":["/own"]}';
  assert.equal(runtime(base, { cmd: ['x'] }), '{"Entrypoint":["/own"],"Cmd":["x"]}');
});

test('entry chain: words with any characters become JSON text', () => {
  const own = ['/bin/sh', '-c', 'echo "é" $A\n', ''];
  const after = JSON.parse(
    runtime(JSON.stringify({ Entrypoint: own }), { entrypoint: ['/a'] }),
  ) as { Env: string[] };
  for (const [position, name] of ['SLUICE_ENTRY_CHAIN=', 'WAVE_ENTRY_CHAIN='].entries()) {
    assert.deepEqual(JSON.parse((after.Env[position] ?? '').slice(name.length)), own);
  }
  assert.equal(
    runtime('{"Entrypoint":"/own -x"}', { entrypoint: ['/a'] }),
    '{"Entrypoint":["/a"],"Env":["SLUICE_ENTRY_CHAIN=[\\"/own -x\\"]","WAVE_ENTRY_CHAIN=/own -x"]}',
  );
});

test('environment: repeated names, names without a value, and names that begin with an equals sign', () => {
  assert.deepEqual(mergeEnv(['A=1', 'B=1', 'A=2'], ['C=1']), ['A=2', 'B=1', 'C=1']);
  assert.deepEqual(mergeEnv(['A=1', 'B=1', 'A=2'], ['A=3']), ['A=3', 'B=1']);
  assert.deepEqual(mergeEnv(['A', 'B='], ['A=1', 'B']), ['A=1', 'B']);
  assert.deepEqual(mergeEnv(['=C:=C:\\a', '=D:=D:\\b'], ['=C:=C:\\c']), ['=C:=C:\\c', '=D:=D:\\b']);
  assert.deepEqual(mergeEnv(['a=1', 'A=1'], ['a=2']), ['a=2', 'A=1']);
  assert.deepEqual(mergeEnv([], ['A=1', 'A=2']), ['A=2']);
  assert.deepEqual(mergeEnv(['__proto__=1'], ['__proto__=2']), ['__proto__=2']);
  assert.equal(runtime('{"Env":["A=1",null,2]}', { env: ['B=1'] }), '{"Env":["A=1","B=1"]}');
});

test('layers: a config without root file system or history gets both', () => {
  for (const [rootfs, history] of [
    ['null', 'null'],
    ['{"type":"layers","diff_ids":null}', '[]'],
  ]) {
    assert.equal(
      changed(`{"rootfs":${rootfs},"history":${history}}`, { layers: [layer] }),
      `{"rootfs":{"type":"layers","diff_ids":["${layer.tarDigest}"]},"history":[${entryOfLayer}]}`,
    );
  }
});

test('layers: the history is extended to the layers of the base, and never shortened', () => {
  const history = (entries: string, baseLayers: number) =>
    changed(`{"history":[${entries}],"rootfs":{}}`, { layers: [layer] }, baseLayers)
      .slice('{"history":['.length)
      .replace(/\],"rootfs".*/, '');
  assert.equal(history('', 2), `${filler},${filler},${entryOfLayer}`);
  assert.equal(
    history('{"empty_layer":true}', 1),
    `{"empty_layer":true},${filler},${entryOfLayer}`,
  );
  assert.equal(
    history('{"empty_layer":null},null', 2),
    `{"empty_layer":null},null,${entryOfLayer}`,
  );
  assert.equal(history('{},{},{}', 1), `{},{},{},${entryOfLayer}`);
});

test('layers: each layer gets its entries, also if it is added twice', () => {
  assert.equal(
    changed('{"rootfs":{"diff_ids":[]},"history":[]}', { layers: [layer, layer] }),
    `{"rootfs":{"diff_ids":["${layer.tarDigest}","${layer.tarDigest}"]},"history":[${entryOfLayer},${entryOfLayer}]}`,
  );
});

test('configs: a config whose layers and history cannot be matched is refused with a sentence', () => {
  for (const text of [
    '{"rootfs":{"diff_ids":{}}}',
    '{"rootfs":{"diff_ids":1.10}}',
    '{"history":{}}',
    '{"history":"x"}',
    '[]',
    '{',
  ]) {
    assert.throws(
      () => changed(text, { layers: [layer] }),
      (error: unknown) => error instanceof OciSyntaxError && error.subject === 'config',
      text,
    );
  }
});
