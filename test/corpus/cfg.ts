import { baseLayer } from './base.ts';
import { type Family, type ImageOptions, imageOf, path, without } from './image.ts';
import { layerOf } from './layer.ts';

/** What `cfg:full` and `cfg:full-docker` print when they are run as they are. */
export const fullLines = [
  'entry: arg1 arg two',
  'user: user',
  'directory: /home/user',
  'greeting: hello, world = 1',
] as const;

const script = `#!/bin/sh
echo "entry: $*"
echo "user: $(id -un)"
echo "directory: $(pwd)"
echo "greeting: $GREETING"
`;

const full = {
  User: 'user',
  ExposedPorts: { '8080/tcp': {} },
  Env: [path, 'GREETING=hello, world = 1', 'EMPTY='],
  Entrypoint: ['/bin/entry'],
  Cmd: ['arg1', 'arg two'],
  Volumes: { '/data': {} },
  WorkingDir: '/home/user',
  Labels: { 'org.example.name': 'full', 'org.example.quote': '"<é>"' },
  StopSignal: 'SIGINT',
};

/** Configurations with optional, missing and unusually spelled members. */
export const cfg: Family = {
  full: async () => imageOf({ layers: await fullLayers(), run: full }),
  /** With the members that only Docker knows. */
  'full-docker': async () =>
    imageOf({
      kind: 'docker',
      layers: await fullLayers(),
      run: { ...full, Healthcheck: { Test: ['NONE'] }, OnBuild: ['RUN true'], Shell: ['/bin/sh'] },
      config: usual => ({
        ...usual,
        docker_version: '20.10.24',
        container: 'c'.repeat(64),
        container_config: { ...full, Hostname: 'cccccccccccc', Image: '' },
      }),
    }),
  null: () => plain({ kind: 'docker', config: usual => ({ ...usual, config: null }) }),
  'null-oci': () => plain({ config: usual => ({ ...usual, config: null }) }),
  noconfig: () => plain({ config: without('config') }),
  /** Every member of `config` is null, as old Docker versions wrote it. */
  confignull: () =>
    plain({
      kind: 'docker',
      run: { Env: null, Cmd: null, Entrypoint: null, Volumes: null, Labels: null, OnBuild: null },
    }),
  empty: () => plain({ run: {} }),
  'entrypoint-only': () => plain({ run: { Env: [path], Entrypoint: ['/bin/echo', 'entry'] } }),
  'cmd-only': () => plain({ run: { Env: [path], Cmd: ['/bin/echo', 'cmd'] } }),
  /** Unknown members, and numbers beyond the range of JavaScript. */
  'unknown-fields': () =>
    plain({
      config: usual => {
        const text = JSON.stringify({ ...usual, 'x.unknown': { deep: [null, { a: '' }] } });
        return text.replace(/}$/, ',"x.big":9007199254740993,"x.huge":1e400,"x.exact":1.10}');
      },
      manifest: usual => ({ ...usual, 'x.unknown': { kept: true } }),
    }),
  /** Spacing, escapes and order as no writer would choose them: the bytes must survive. */
  rawjson: () =>
    plain({
      config: usual => `\n{ "\\u006fs" : "linux",\t${JSON.stringify(usual, null, 3).slice(1)} \n`,
      manifest: usual => JSON.stringify(usual, null, 5).replaceAll('/', '\\/'),
    }),
};

async function plain(options: Omit<ImageOptions, 'layers'>) {
  return imageOf({ ...options, layers: [await baseLayer()] });
}

async function fullLayers() {
  const entry = [{ name: 'bin/entry', content: script, mode: 0o755 }];
  return [await baseLayer(), await layerOf(entry)];
}
