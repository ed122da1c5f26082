import type { Digest } from '../../../oci/digest.ts';
import type { NewMessage } from '../messages/message-rows.ts';

/** A manifest of a hosted repository. A list of referrers shows the last three members. */
export interface HostedManifest {
  readonly digest: Digest;
  readonly mediaType: string;
  /** Bytes. */
  readonly size: number;
  readonly subject: Digest | null;
  readonly artifactType: string | null;
  /** JSON text. */
  readonly annotations: string | null;
}

export interface ListedManifest {
  readonly digest: Digest;
  /** True for a manifest without a tag, without a subject, and that is no part of an index. */
  readonly isUntagged: boolean;
}

/** A manifest that has a subject. Its annotations are left out because they may be long. */
export type HostedReferrer = Pick<HostedManifest, 'digest' | 'artifactType'>;

/**
 * Records the content of each hosted repository; the bytes are in the content store. A repository exists from the
 * first push to it until it is empty. Each method that changes something is one transaction, and resolves when the
 * change would survive a power failure, unless its description says otherwise.
 */
export interface HostedStore extends HostedPushes, HostedRemovals, HostedSums {
  hasRepository(repository: string): Promise<boolean>;
  /** Returns the names of repositories after a name, in the order of their bytes. */
  repositories(after: string, limit: number): Promise<string[]>;
  manifest(repository: string, digest: Digest): Promise<HostedManifest | undefined>;
  /** Returns up to so many manifests of a repository after a digest, in their order. */
  manifestsOf(repository: string, after: string, limit: number): Promise<ListedManifest[]>;
  /** Returns the manifests of a subject after a digest, in the order of their digests. */
  referrers(
    repository: string,
    subject: Digest,
    after: string,
    limit: number,
  ): Promise<HostedReferrer[]>;
  tagged(repository: string, tag: string): Promise<Digest | undefined>;
  taggedManifest(repository: string, tag: string): Promise<HostedManifest | undefined>;
  /** Returns the tags after a name, in the order of their bytes. */
  tags(repository: string, after: string, limit: number): Promise<string[]>;
  /** Returns up to so many tags of a manifest. */
  tagsOf(repository: string, digest: Digest, limit: number): Promise<string[]>;
  /** Returns the content that a manifest refers to and no other manifest of the repository does. */
  soleParts(repository: string, digest: Digest): Promise<Digest[]>;
  /** Size in bytes, undefined when the repository does not have it. */
  blobSize(repository: string, digest: Digest): Promise<number | undefined>;
  /** Returns up to so many of the repositories that have the blob. */
  holdersOf(digest: Digest, limit: number): Promise<string[]>;

  /** True when a repository has it, as a blob or as a manifest. */
  isHeld(digest: Digest): Promise<boolean>;
  /** Returns up to so many blobs, or manifests, of all repositories after a place in their order. */
  blobsAfter(place: HostedPlace, limit: number): Promise<HostedRow[]>;
  manifestsAfter(place: HostedPlace, limit: number): Promise<HostedRow[]>;
  /** Returns the same blobs, and whether a manifest needs each of them. */
  loneBlobsAfter(place: HostedPlace, limit: number): Promise<PossibleOrphan[]>;
  /** Resolves when every earlier change would survive a power failure. */
  settle(): Promise<void>;
}

/** Triggers maintain these sums. */
export interface HostedSums {
  /** Bytes of all blobs and manifests of a repository. */
  repositoryBytes(repository: string): Promise<number>;
  /** Bytes of a repository and of those below it; content that is in several of them counts once for each. */
  bytesBelow(repository: string): Promise<number>;
  /** Bytes of all hosted content, each counted once. */
  totalBytes(): Promise<number>;
}

export interface HostedPushes {
  /**
   * Puts a manifest with its tags into a repository, and counts its content as used. Checks the limits and all
   * content that the manifest refers to first. Changes nothing else unless the result is `put`.
   */
  putManifest(push: ManifestPush): Promise<ManifestPushed>;
  /**
   * Counts content as used and makes it a blob of the repository. It is then no longer a mere copy of an upstream
   * blob. Returns the reason for a refusal.
   */
  putBlob(push: BlobPush): Promise<BlobRefusal | undefined>;
}

export interface HostedRemovals {
  /** Removes a manifest and its tags; false when there was none. */
  removeManifest(repository: string, digest: Digest, terms?: RemovalTerms): Promise<boolean>;
  removeTag(repository: string, tag: string, terms?: RemovalTerms): Promise<boolean>;
  removeBlob(
    repository: string,
    digest: Digest,
    terms?: Pick<RemovalTerms, 'signal'>,
  ): Promise<BlobRemoval>;
  /** Removes all tags and manifests of a repository, a few at a time, and the repository once it is empty. */
  removeManifests(repository: string): Promise<void>;
  /**
   * Removes orphans from their repositories in one transaction, except those that are referred to again; returns the
   * removed ones. Does not wait for the disk.
   */
  removeOrphans(orphans: readonly HostedRow[], linkedBefore: number): Promise<HostedRow[]>;
  /** Sets the time at which a blob was put into its repository. Does not wait for the disk. */
  redate(row: HostedRow, at: number): Promise<void>;
  /** Removes empty repositories, a few at a time, and yields their names. */
  removeEmpty(signal?: AbortSignal): AsyncGenerator<string>;
}

export interface RemovalTerms {
  /** Written in the same transaction, if something is removed. */
  readonly messages?: readonly NewMessage[];
  /** Aborts what has not begun: nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined;
}

/** Bytes; undefined for no limit. */
export interface HostedLimits {
  readonly maxBlobBytes: number | undefined;
  readonly maxRepositoryBytes: number | undefined;
  readonly maxTotalBytes: number | undefined;
}

/** The limit that a push reaches. */
export type HostedLimit = keyof HostedLimits;

/** Why a blob is not put: a limit, or its content is no longer here. */
export type BlobRefusal = HostedLimit | 'gone';

export interface BlobPush extends HostedContent {
  /** ms since the epoch */
  readonly at: number;
  readonly limits: HostedLimits;
}

export interface ManifestPush {
  readonly repository: string;
  readonly manifest: HostedManifest;
  readonly blobs: readonly NeededBlob[];
  readonly manifests: readonly NeededPart[];
  readonly tags: readonly string[];
  readonly limits: HostedLimits;
  /** Written in the same transaction. */
  readonly messages?: readonly NewMessage[];
  /** Aborts what has not begun: nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined;
}

/** Content that a manifest refers to, as its descriptor says. */
export interface NeededPart {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
}

export interface NeededBlob extends NeededPart {
  /** True when the repository need not have it. */
  readonly isOptional: boolean;
}

export type ManifestPushed =
  | { readonly kind: 'put' }
  /** Its content is no longer here. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'limit'; readonly limit: HostedLimit }
  | { readonly kind: 'missing-blob' | 'missing-manifest'; readonly part: NeededPart }
  | {
      readonly kind: 'blob-size' | 'manifest-size';
      readonly part: NeededPart;
      /** Bytes that the repository has. */
      readonly kept: number;
    };

export type BlobRemoval =
  | { readonly kind: 'removed' | 'unknown' }
  | { readonly kind: 'needed'; readonly manifest: Digest };

/** An image of a hosted repository, and the tag that it was pushed under. */
export interface HostedImage {
  readonly repository: string;
  readonly tag: string;
  readonly digest: Digest;
}

export interface HostedContent {
  readonly repository: string;
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
}

/** A place in the order of all hosted content: by repository, then by digest. */
export interface HostedPlace {
  readonly repositoryId: number;
  readonly digest: string;
}

/** The place before everything. */
export const firstPlace: HostedPlace = { repositoryId: 0, digest: '' };

export interface HostedRow extends HostedContent, HostedPlace {
  readonly digest: Digest;
}

export interface PossibleOrphan extends HostedRow {
  /** No manifest of the repository refers to it. */
  readonly isLone: boolean;
  /** ms since the epoch */
  readonly linkedAt: number;
}
