import { unlessMissing } from '../../foundation/fault.ts';
import { imageConfig } from '../../images/index.ts';
import { type Digest, referrersTag } from '../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  documentOf,
  type JsonObject,
  manifestType,
  parseJson,
  parseManifest,
} from '../../oci/index.ts';
import { bareMediaType, mediaTypes } from '../../oci/media-type.ts';
import { isAttestation } from '../../oci/naming.ts';
import type { ChosenImage, OfferedPlatform } from '../../request/index.ts';
import type { Access, RegistryClient } from '../../upstream/index.ts';

/** What the page of an image shows. */
export interface ImageView {
  readonly platforms: readonly OfferedPlatform[];
  readonly indexDigest: Digest | undefined;
  readonly digest: Digest;
  readonly mediaType: string;
  /** Type of an artifact; undefined for an image. */
  readonly artifactType: string | undefined;
  /** Bytes of all layers, as they are pulled. */
  readonly layerBytes: number;
  /** Undefined for an artifact. */
  readonly config: ConfigView | undefined;
  readonly history: readonly HistoryStep[];
  readonly layers: readonly LayerView[];
  readonly annotations: Readonly<Record<string, string>>;
}

export interface LayerView {
  /** Counted from 1, the lowest first. */
  readonly number: number;
  readonly digest: Digest;
  readonly mediaType: string;
  /** Bytes as they are pulled. */
  readonly size: number;
  /** Name of the file that an artifact calls this layer. */
  readonly title: string | undefined;
}

/** Returns what the page of an image shows. Throws a `Fault`. */
export async function viewImage(chosen: ChosenImage): Promise<ImageView> {
  const { opened, platforms, document, manifest } = chosen;
  const layers = manifest.layers.map(({ digest, mediaType, size, annotations }, at) => ({
    number: at + 1,
    digest,
    mediaType,
    size,
    title: annotations?.['org.opencontainers.image.title'],
  }));
  const own = await imageConfig(opened.documents, opened.access, manifest);
  const config = own && parseJson(own.bytes, 'config');
  return {
    platforms,
    indexDigest: opened.root.digest === document.digest ? undefined : opened.root.digest,
    digest: document.digest,
    mediaType: bareMediaType(manifestType(document)) ?? '',
    artifactType: config ? undefined : (manifest.artifactType ?? manifest.config.mediaType),
    layerBytes: layers.reduce((sum, { size }) => sum + size, 0),
    config: config && configView(config),
    history: config ? historySteps(config, layers.length) : [],
    layers,
    annotations: manifest.annotations ?? {},
  };
}

/** The configuration of an image, as far as it was set. */
export interface ConfigView {
  readonly created: string | undefined;
  readonly platform: string | undefined;
  readonly user: string | undefined;
  readonly workingDirectory: string | undefined;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly environment: readonly string[];
  readonly ports: readonly string[];
  readonly volumes: readonly string[];
  readonly stopSignal: string | undefined;
  readonly healthCheck: readonly string[];
  readonly labels: readonly (readonly [name: string, value: string])[];
}

/** A step of the history of an image. */
export interface HistoryStep {
  readonly createdBy: string;
  readonly comment: string | undefined;
  readonly created: string | undefined;
  /** Number of the layer that the step made, counted from 1; undefined for a step that changed no files. */
  readonly layer: number | undefined;
}

/** Reads an image configuration. Ignores members of a wrong type: the registry may send anything. */
function configView(config: JsonObject): ConfigView {
  const run = asObject(config.config) ?? {};
  const system = [config.os, config.architecture, config.variant].map(textOf).filter(Boolean);
  return {
    created: textOf(config.created),
    platform: system.length > 0 ? system.join('/') : undefined,
    user: textOf(run.User),
    workingDirectory: textOf(run.WorkingDir),
    entrypoint: textsOf(run.Entrypoint),
    command: textsOf(run.Cmd),
    environment: textsOf(run.Env),
    ports: Object.keys(asObject(run.ExposedPorts) ?? {}),
    volumes: Object.keys(asObject(run.Volumes) ?? {}),
    stopSignal: textOf(run.StopSignal),
    healthCheck: textsOf(asObject(run.Healthcheck)?.Test),
    labels: Object.entries(asObject(run.Labels) ?? {}).map(([name, value]) => [
      name,
      textOf(value) ?? '',
    ]),
  };
}

/** Joins the history with the layers. Layers without a step get an empty one. */
function historySteps(config: JsonObject, layers: number): HistoryStep[] {
  const steps: HistoryStep[] = [];
  let layer = 0;
  for (const entry of Array.isArray(config.history) ? config.history : []) {
    const step = asObject(entry) ?? {};
    const isEmpty = step.empty_layer === true || layer >= layers;
    if (!isEmpty) layer += 1;
    steps.push({
      createdBy: textOf(step.created_by) ?? '',
      comment: textOf(step.comment),
      created: textOf(step.created),
      layer: isEmpty ? undefined : layer,
    });
  }
  while (layer < layers) {
    layer += 1;
    steps.push({ createdBy: '', comment: undefined, created: undefined, layer });
  }
  return steps;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns a list of texts; a single text is a list of one. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter(entry => typeof entry === 'string') : [];
}

/** Something that refers to an image: a signature, a bill of materials, provenance. */
export interface ReferrerView {
  readonly digest: Digest;
  readonly size: number | undefined;
  /** What it is, in words, where that is known. */
  readonly kind: string;
  readonly type: string;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface Referrers {
  readonly found: readonly ReferrerView[];
  /** True if the registry did not answer in full. */
  readonly isPartial: boolean;
}

// A page does not wait longer for them (ms).
const waitMs = 4000;
const mostShown = 50;

/** Returns what refers to an image: by the referrers API, by tags of cosign, and in the index of the image. */
export async function findReferrers(
  registry: RegistryClient,
  { opened: { access, root, documents }, document, manifest }: ChosenImage,
): Promise<Referrers> {
  const signal = AbortSignal.timeout(waitMs);
  const subjects = [...new Set([document.digest, root.digest])];
  const attached = inIndex(root, document.digest).map(async entry => {
    const about = parseManifest(await documents.manifest(access, entry.digest, entry.mediaType));
    const layers = about.kind === 'manifest' ? about.layers : [];
    return layers.map(layer => attestationView(entry, layer));
  });
  const asked = [
    ...subjects.map(subject => byApi(registry, access, subject, signal)),
    ...subjects.flatMap(subject =>
      cosignKinds.map(kind => byTag(registry, access, subject, kind, signal)),
    ),
    ...attached,
    ...(manifest.subject ? [Promise.resolve([subjectView(manifest.subject)])] : []),
  ];
  const responses = await Promise.allSettled(asked);
  const found = responses.flatMap(response =>
    response.status === 'fulfilled' ? response.value : [],
  );
  const unique = [...new Map(found.map(view => [`${view.digest} ${view.kind}`, view])).values()];
  return {
    found: unique.slice(0, mostShown),
    isPartial: unique.length > mostShown || responses.some(({ status }) => status === 'rejected'),
  };
}

async function byApi(
  registry: RegistryClient,
  access: Access,
  subject: Digest,
  signal: AbortSignal,
): Promise<ReferrerView[]> {
  const response = await unlessMissing(
    registry.getJson(access, `referrers/${subject}`, '', signal),
  );
  // Source: OCI distribution specification 1.1, Referrers Tag Schema.
  const bytes =
    response?.body ??
    (await unlessMissing(registry.getManifest(access, referrersTag(subject), signal)))?.bytes;
  if (!bytes) return [];
  const index = parseManifest(documentOf(bytes, mediaTypes.ociIndex));
  if (index.kind !== 'index') return [];
  return index.manifests.map(entry => {
    const type = typeof entry.artifactType === 'string' ? entry.artifactType : entry.mediaType;
    return referrerView(entry, type, kindOf(type));
  });
}

const cosignKinds = [
  ['sig', 'Signature'],
  ['att', 'Attestation'],
  ['sbom', 'Bill of materials'],
] as const;

/** Source: cosign, specs/SIGNATURE_SPEC.md, Discovery. */
async function byTag(
  registry: RegistryClient,
  access: Access,
  subject: Digest,
  [ending, kind]: (typeof cosignKinds)[number],
  signal: AbortSignal,
): Promise<ReferrerView[]> {
  const tag = `${referrersTag(subject)}.${ending}`;
  const head = await unlessMissing(registry.headManifest(access, tag, signal));
  if (!head) return [];
  return [{ digest: head.digest, size: undefined, kind, type: head.mediaType, annotations: {} }];
}

/** Returns BuildKit's attestations of an image, which its index lists beside it. */
function inIndex(root: Parameters<typeof parseManifest>[0], subject: Digest): Descriptor[] {
  const index = parseManifest(root);
  if (index.kind !== 'index') return [];
  return index.manifests.filter(
    entry => isAttestation(entry) && entry.annotations?.['vnd.docker.reference.digest'] === subject,
  );
}

function attestationView({ digest }: Descriptor, layer: Descriptor): ReferrerView {
  const predicate = layer.annotations?.['in-toto.io/predicate-type'];
  const shown = referrerView(
    layer,
    predicate ?? layer.mediaType,
    kindOf(predicate ?? layer.mediaType),
  );
  return { ...shown, digest };
}

function subjectView(subject: Descriptor): ReferrerView {
  return referrerView(subject, subject.mediaType, 'The image that this artifact is about');
}

function referrerView(entry: Descriptor, type: string, kind: string): ReferrerView {
  return {
    digest: entry.digest,
    size: entry.size,
    kind,
    type,
    annotations: entry.annotations ?? {},
  };
}

function kindOf(type: string): string {
  if (/spdx|cyclonedx|sbom/i.test(type)) return 'Bill of materials';
  if (/^application\/vnd\.sluice\.conda\.lock/.test(type)) return 'Lock file';
  if (/provenance/i.test(type)) return 'Provenance';
  if (/signature|cosign|notary|sigstore/i.test(type)) return 'Signature';
  if (/in-toto|attestation/i.test(type)) return 'Attestation';
  return 'Artifact';
}
