import type { MessageInitShape } from '@bufbuild/protobuf';
import { type FileTree, memoryTree } from './files/file-tree.ts';
import type { SolveRequestSchema } from './gen/moby/buildkit/v1/solve_pb.js';
import { MatchType, PolicyAction } from './gen/moby/buildkit/v1/sourcepolicy/policy_pb.js';
import type { BuildOptions, Cache, Exporter } from './options.ts';

type Attrs = Record<string, string>;

/** The request to the builder, and the trees by the names under which the builder will request them. */
export interface SolveInput {
  readonly request: MessageInitShape<typeof SolveRequestSchema>;
  readonly trees: ReadonlyMap<string, FileTree>;
}

/** Converts options to BuildKit's request. `ref` is the id of the build. */
export function solveInput(options: BuildOptions, ref: string): SolveInput {
  const { dockerfileName = 'Dockerfile', context = memoryTree({}) } = options;
  const named = Object.entries(options.namedContexts ?? {});
  // Source: BuildKit's Dockerfile frontend, which first looks for this file next to the Dockerfile.
  const ignoreFile: Record<string, string> =
    options.dockerignore === undefined
      ? {}
      : { [`${dockerfileName}.dockerignore`]: options.dockerignore };
  const trees = new Map<string, FileTree>([
    ['dockerfile', memoryTree({ [dockerfileName]: options.dockerfile, ...ignoreFile })],
    ['context', context],
  ]);
  const attrs = frontendAttrs(options, dockerfileName);
  for (const [index, [name, source]] of named.entries()) {
    if (typeof source !== 'string') trees.set(`context-${index}`, source);
    attrs[`context:${name}`] = typeof source === 'string' ? source : `local:context-${index}`;
  }
  const isDated = options.sourceDateEpoch !== undefined;
  const exporters = (options.exporters ?? []).map(exporter => ({
    Type: exporter.type,
    Attrs: exporterAttrs(exporter, isDated),
  }));
  const imports = (options.cacheImports ?? []).map(importEntry);
  // The frontend reads the caches from this attribute, the solver from `Cache` below.
  if (imports.length > 0) attrs['cache-imports'] = JSON.stringify(imports);
  const policy = policyOf(options);
  const request = {
    Ref: ref,
    Frontend: 'dockerfile.v0',
    FrontendAttrs: { ...attrs, ...options.frontendAttrs },
    Cache: { Imports: imports, Exports: (options.cacheExports ?? []).map(exportEntry) },
    Entitlements: [
      ...(options.network === 'host' ? ['network.host'] : []),
      ...(options.entitlements ?? []),
    ],
    Internal: !options.history,
    ...(policy ? { SourcePolicy: policy } : {}),
    Exporters: exporters,
    ExporterDeprecated: exporters[0]?.Type ?? '',
    ExporterAttrsDeprecated: exporters[0]?.Attrs ?? {},
  };
  return { request, trees };
}

/**
 * Source: BuildKit's sourcepolicy. A tag is resolved without its digest and pulled with it, so both forms need a rule.
 * After a conversion, the builder applies the rules to the new name.
 */
function policyOf({ allowedImages, replacedImages, sourceRules = [] }: BuildOptions) {
  const selector = (name: string) => ({ identifier: `docker-image://${name}` });
  const image = (action: PolicyAction, name: string) => ({ action, selector: selector(name) });
  const formsOf = (name: string) => [name, ...(name.includes('@') ? [] : [`${name}@*`])];
  const replaced = Object.entries(replacedImages ?? {});
  const isLimited = allowedImages !== undefined || replacedImages !== undefined;
  const images = isLimited
    ? [
        image(PolicyAction.DENY, '*'),
        ...(allowedImages ?? []).flatMap(formsOf).map(name => image(PolicyAction.ALLOW, name)),
        ...replaced
          .flatMap(([, { pulled }]) => formsOf(pulled))
          .map(name => image(PolicyAction.ALLOW, name)),
        ...replaced.flatMap(([name, { pulled }]) =>
          formsOf(name).map(form => ({
            ...image(PolicyAction.CONVERT, form),
            updates: selector(pulled),
          })),
        ),
      ]
    : [];
  const others = sourceRules.map(({ action, pattern }) => ({
    action: action === 'deny' ? PolicyAction.DENY : PolicyAction.ALLOW,
    selector: { identifier: pattern, matchType: MatchType.REGEX },
  }));
  const rules = [...images, ...others];
  return rules.length === 0 ? undefined : { version: 1n, rules };
}

function frontendAttrs(options: BuildOptions, filename: string): Attrs {
  const { target, platforms = [], noCache = false, network, extraHosts, cacheNamespace } = options;
  const prefixed = (prefix: string, values: Readonly<Attrs> = {}) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [prefix + key, value]));
  const epoch = options.sourceDateEpoch;
  return {
    filename,
    ...(target === undefined ? {} : { target }),
    ...(platforms.length > 0 ? { platform: platforms.join(',') } : {}),
    ...(noCache === false ? {} : { 'no-cache': noCache === true ? '' : noCache.join(',') }),
    ...(options.pull ? { 'image-resolve-mode': 'pull' } : {}),
    ...(network === undefined ? {} : { 'force-network-mode': network }),
    ...(extraHosts ? { 'add-hosts': hostsLine(extraHosts) } : {}),
    ...(epoch === undefined ? {} : { 'build-arg:SOURCE_DATE_EPOCH': String(epoch) }),
    ...(cacheNamespace === undefined
      ? {}
      : { 'build-arg:BUILDKIT_CACHE_MOUNT_NS': cacheNamespace }),
    ...prefixed('build-arg:', options.buildArgs),
    ...prefixed('label:', options.labels),
  };
}

function hostsLine(hosts: Readonly<Attrs>): string {
  return Object.entries(hosts)
    .map(([name, address]) => `${name}=${address}`)
    .join(',');
}

function exporterAttrs(exporter: Exporter, isDated: boolean): Attrs {
  const { attrs } = exporter;
  const name = 'name' in exporter ? (exporter.name ?? '') : '';
  // The same digest for each build requires both this and the build argument.
  const dated: Attrs =
    isDated && exporter.type !== 'tar' && exporter.type !== 'moby'
      ? { 'rewrite-timestamp': 'true' }
      : {};
  const names = [name].flat().join(',');
  const common = { ...(names === '' ? {} : { name: names }), ...dated };
  if ('blobs' in exporter) return { ...common, tar: 'false', ...attrs };
  if ('sink' in exporter) return { ...common, ...attrs };
  const { push, insecure, ociMediaTypes = true, compression, forceCompression } = exporter;
  return {
    ...common,
    ...(push ? { push: 'true' } : {}),
    ...(insecure ? { 'registry.insecure': 'true' } : {}),
    'oci-mediatypes': String(ociMediaTypes),
    ...(compression === undefined ? {} : { compression }),
    ...(forceCompression ? { 'force-compression': 'true' } : {}),
    ...attrs,
  };
}

function importEntry(cache: Cache): { Type: string; Attrs: Attrs } {
  return { Type: cache.type, Attrs: { ...placeOf(cache), ...cache.attrs } };
}

function exportEntry(cache: Cache): { Type: string; Attrs: Attrs } {
  if (cache.type !== 'registry') return importEntry(cache);
  const Attrs = {
    ...placeOf(cache),
    mode: cache.mode ?? 'max',
    // Some registries reject BuildKit's own manifest format but accept an image manifest.
    'image-manifest': 'true',
    'oci-mediatypes': 'true',
    ...(cache.required ? {} : { 'ignore-error': 'true' }),
    ...cache.attrs,
  };
  return { Type: cache.type, Attrs };
}

function placeOf(cache: Cache): Attrs {
  if (cache.type !== 'registry') return {};
  return { ref: cache.ref, ...(cache.insecure ? { 'registry.insecure': 'true' } : {}) };
}
