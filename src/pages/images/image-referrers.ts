import { unlessMissing } from '../../foundation/fault.ts';
import { type Digest, referrersTag } from '../../oci/digest.ts';
import { type Descriptor, documentOf, parseManifest } from '../../oci/index.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import { isAttestation } from '../../oci/naming.ts';
import type { ChosenImage } from '../../request/index.ts';
import type { Access, RegistryClient } from '../../upstream/index.ts';

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
    return view(entry, type, kindOf(type));
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
  const shown = view(layer, predicate ?? layer.mediaType, kindOf(predicate ?? layer.mediaType));
  return { ...shown, digest };
}

function subjectView(subject: Descriptor): ReferrerView {
  return view(subject, subject.mediaType, 'The image that this artifact is about');
}

function view(entry: Descriptor, type: string, kind: string): ReferrerView {
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
  if (/provenance/i.test(type)) return 'Provenance';
  if (/signature|cosign|notary|sigstore/i.test(type)) return 'Signature';
  if (/in-toto|attestation/i.test(type)) return 'Attestation';
  return 'Artifact';
}
