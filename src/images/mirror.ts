import { Fault, unlessMissing } from '../foundation/fault.ts';
import { type Digest, referrersTag } from '../oci/digest.ts';
import {
  type Descriptor,
  type Document,
  documentOf,
  parseManifest,
  partsOf,
} from '../oci/index.ts';
import { mediaTypes } from '../oci/media-type.ts';
import { OciSyntaxError } from '../oci/naming.ts';
import {
  type Access,
  nextPage,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';
import type { NoteByTag } from './attach.ts';
import type { Documents } from './documents.ts';
import type { Publish } from './publish.ts';

/** An image to copy as it is, and the tag that it gets. */
export interface MirrorOrder {
  readonly source: Access;
  readonly root: Document;
  readonly target: Access;
  readonly tag: string;
}

/**
 * Copies an image with all platforms, then what refers to it (signatures, attestations, bills of materials), and tags it
 * last: whoever sees the tag finds all of it. Throws `Fault`.
 */
export type Mirror = (
  order: MirrorOrder,
  log: (line: string) => void,
  signal: AbortSignal,
) => Promise<void>;

export interface MirrorDeps {
  readonly documents: Documents;
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly publish: Publish;
  readonly noteByTag: NoteByTag;
}

// Referrers of one image with all its platforms, such as a signature and a bill of materials for each.
const mostReferrers = 500;
const mostPages = 100;
const mostSubjects = 200;
// Tags under which cosign keeps what it says about a digest at registries without the referrers API.
const cosignSuffixes = ['sig', 'att', 'sbom'] as const;

/** Source: OCI distribution specification 1.1, Listing Referrers and its backwards compatibility. */
export function createMirror(deps: MirrorDeps): Mirror {
  const { documents, registry, pusher, publish, noteByTag } = deps;

  /** Returns the referrers of a digest: by the API, page by page, or by the tag that stands in for it. */
  const referrersOf = async (source: Access, subject: Digest, signal: AbortSignal) => {
    const found = new Map<Digest, Descriptor>();
    let query = '';
    for (let page = 0; ; page += 1) {
      if (page === mostPages || found.size > mostReferrers) throw tooManyReferrers(source);
      const response = await unlessMissing(
        registry.getJson(source, `referrers/${subject}`, query, signal),
      );
      const entries = response?.status === 200 ? entriesIn(response.body) : undefined;
      if (!entries) break;
      for (const entry of entries) found.set(entry.digest, entry);
      const next = nextPage(response?.headers.get('link'));
      if (next === undefined) return found.values();
      query = `?${next}`;
    }
    const index = await unlessMissing(registry.getManifest(source, referrersTag(subject), signal));
    for (const entry of (index && entriesIn(index.bytes)) ?? []) found.set(entry.digest, entry);
    return found.values();
  };

  return async ({ source, root, target, tag }, log, signal) => {
    const copy = (document: Document, reference: string) =>
      publish(
        {
          image: { root: document, generated: new Map() },
          added: [],
          source,
          target,
          tag: reference,
        },
        log,
        signal,
      );
    await copy(root, root.digest);
    const subjects = [
      { digest: root.digest, mediaType: root.mediaType, size: root.bytes.length },
      ...partsOf(root).manifests,
    ];
    const seen = new Set<Digest>(subjects.map(({ digest }) => digest));
    let count = 0;
    // Grows meanwhile: a signature may refer to an attestation.
    for (let at = 0; at < Math.min(subjects.length, mostSubjects); at += 1) {
      const subject = subjects[at];
      if (!subject) break;
      for (const entry of await referrersOf(source, subject.digest, signal)) {
        if (seen.has(entry.digest)) continue;
        seen.add(entry.digest);
        count += 1;
        if (count > mostReferrers) throw tooManyReferrers(source);
        const referrer = await documents.manifest(source, entry.digest, entry.mediaType);
        const { isReferrer } = await copy(referrer, referrer.digest);
        if (!isReferrer) await noteByTag(pushingTo(target), subject, entry, signal);
        subjects.push(entry);
      }
      for (const suffix of cosignSuffixes) {
        const name = `${referrersTag(subject.digest)}.${suffix}`;
        const found = await unlessMissing(registry.getManifest(source, name, signal));
        if (found) await copy(found, name);
      }
    }
    if (subjects.length > mostSubjects) {
      log(`Referrers of the first ${mostSubjects} manifests were copied, of ${subjects.length}\n`);
    }
    await pusher.putManifest(pushingTo(target), tag, root, signal);
    log(`${target.registry}/${target.repository}:${tag} is ${root.digest}\n`);
  };
}

/** Returns the entries of an index; undefined for anything else, such as the page of a proxy. */
function entriesIn(bytes: Buffer): readonly Descriptor[] | undefined {
  try {
    const listed = parseManifest(documentOf(bytes, mediaTypes.ociIndex));
    return listed.kind === 'index' ? listed.manifests : undefined;
  } catch (error) {
    if (error instanceof OciSyntaxError) return undefined;
    throw error;
  }
}

function tooManyReferrers({ registry, repository }: Access): Fault {
  return new Fault(
    'upstream-unusable',
    `More than ${mostReferrers} manifests of ${registry}/${repository} refer to the image: mirror it with another tool`,
    { phase: 'upstream' },
  );
}
