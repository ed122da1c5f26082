import { augment } from '../../src/images/augment/augment.ts';
import type { ImageChange } from '../../src/images/augment/image-config.ts';
import type { Digest } from '../../src/oci/digest.ts';
import type { Document } from '../../src/oci/manifest.ts';

/** A case as it lies on the disk: documents by file name, the root first. */
export interface GoldenBase {
  readonly change: ImageChange;
  readonly documents: readonly { file: string; mediaType: string; digest: string }[];
}

/** The result for a base. */
export interface GoldenResult {
  readonly digest: string;
  readonly mediaType: string;
  readonly maxLayers: number;
  /** Digests of the rewritten documents, by file name. */
  readonly generated: Readonly<Record<string, { digest: string; mediaType: string }>>;
}

/** Augments a base. Returns the result, and the bytes by file name. */
export function augmented(
  base: GoldenBase,
  read: (file: string) => Buffer,
): { result: GoldenResult; files: ReadonlyMap<string, Buffer> } {
  const documents = base.documents.map(
    ({ file, mediaType, digest }): Document => ({
      bytes: read(file),
      mediaType,
      digest: digest as Digest,
    }),
  );
  const [root] = documents;
  if (root === undefined) throw new Error('The case has no documents');
  const byDigest = new Map(documents.map(document => [document.digest, document]));
  const image = augment(root, byDigest, base.change);
  const generated: Record<string, { digest: string; mediaType: string }> = {};
  const files = new Map<string, Buffer>();
  for (const [position, document] of [...image.generated.values()].entries()) {
    const file = `${position}.json`;
    generated[file] = { digest: document.digest, mediaType: document.mediaType };
    files.set(file, document.bytes);
  }
  const { digest, mediaType } = image.root;
  return { result: { digest, mediaType, maxLayers: image.maxLayers, generated }, files };
}
