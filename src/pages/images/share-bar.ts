import { type Html, html } from '../frame/html.ts';

/** Returns a bar that shows a share, from 0 to 1. */
export function shareBar(share: number): Html {
  const width = Math.max(share > 0 ? 1 : 0, Math.round(share * 1000) / 10);
  return html`<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect class="ground" width="100" height="8"/><rect class="part" width="${width}" height="8"/></svg>`;
}

/** Returns a share, from 0 to 1, as text. */
export function shareText(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}
