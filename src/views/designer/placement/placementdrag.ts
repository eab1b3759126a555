import { followPointer } from '../../pointerdrag';

/** The distance that the pointer must move, in pixels, before a press on a node becomes a drag to a device. */
const BEGIN_PX = 5;
const TARGET = '[data-device]';

/**
 * Follow the pointer after a press. Once it has moved a few pixels, a chip with `label` follows it, and the device
 * under it has the class `jp-mod-target`. `onDrop` is called with the device on which it is released; Escape cancels.
 */
export function dragToDevice(event: React.PointerEvent, label: string, onDrop: (device: string) => void): void {
  if (event.button !== 0 || event.shiftKey) {
    return;
  }
  const pressed = event.target as Element;
  if (pressed.hasPointerCapture(event.pointerId)) {
    pressed.releasePointerCapture(event.pointerId); // otherwise touch events would go to where they began
  }
  const from = { x: event.clientX, y: event.clientY };
  let chip: HTMLElement | null = null;
  let target: HTMLElement | null = null;
  const aim = (next: HTMLElement | null) => {
    target?.classList.remove('jp-mod-target');
    next?.classList.add('jp-mod-target');
    target = next;
  };
  const move = (moving: PointerEvent) => {
    if (!chip && Math.hypot(moving.clientX - from.x, moving.clientY - from.y) > BEGIN_PX) {
      chip = document.createElement('div');
      chip.className = 'jp-dtf-drag jp-dtf-drag-layers';
      chip.textContent = label;
      document.body.append(chip);
    }
    if (chip) {
      chip.style.transform = `translate(${moving.clientX + 12}px, ${moving.clientY + 12}px)`;
      aim((moving.target as Element).closest<HTMLElement>(TARGET));
    }
  };
  const escape = (key: KeyboardEvent) => {
    if (key.key === 'Escape') {
      key.stopPropagation();
      stop();
    }
  };
  const stop = followPointer(event.pointerId, window, {
    move,
    release: () => {
      const device = target?.dataset.device;
      stop();
      if (device !== undefined) {
        onDrop(device);
      }
    },
    end: () => {
      aim(null);
      chip?.remove();
      window.removeEventListener('keydown', escape, true);
    }
  });
  window.addEventListener('keydown', escape, true);
}
