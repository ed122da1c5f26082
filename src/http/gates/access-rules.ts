/** The callers with access: everybody (`open`), callers with a login (`login`), nobody (`off`). */
export type Openness = 'open' | 'login' | 'off';

/** What messages say where `access.pulls` is `off`. */
export const pullsAreOff =
  "this server has switched off pulls of served names (its setting 'access.pulls' is 'off')";

/** The callers that may use each service of this server. */
export interface AccessRules {
  /** Container requests, image metadata, checks of credentials. */
  readonly requests: Openness;
  /** Building, freezing and converting images. */
  readonly builds: Openness;
  /** Pulls of served names. */
  readonly pulls: Openness;
}
