/** A request before it is put on the wire. */
export interface Ask {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body?: Buffer;
}

/** Existing resources for the requests, so that not all of them fail at the first check. */
export interface FuzzWorld {
  /** Authority of the server. */
  readonly host: string;
  /** `host/repository:tag` of an image at a registry that answers. */
  readonly image: string;
  /** Path of a served name below `/v2/`. */
  readonly served: string;
  readonly containerToken: string;
  readonly buildId: string;
  /** Hosted repository that anybody may pull. */
  readonly repository: string;
  /** Digests of things that are there. */
  readonly digests: readonly string[];
  /** Values of `Authorization` of all kinds. */
  readonly authorizations: readonly string[];
  readonly accessToken: string;
}
