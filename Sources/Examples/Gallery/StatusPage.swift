#if GTK
import CGTK

/// A page with an icon, a title and a sentence, for the times when there is nothing else to show.
@MainActor final class StatusPage {
    let widget: WidgetPointer
    private let icon = gtk_image_new()!
    private let title = gtk_label_new("")!
    private let text = gtk_label_new("")!
    private let button: WidgetPointer

    init(button label: String, _ action: @escaping @MainActor () -> Void) {
        button = gtk_button_new_with_label(label)!
        widget = Toolkit.box(GTK_ORIENTATION_VERTICAL, margin: 24, spacing: 12).add(icon, title, text, button)
        gtk_widget_set_valign(widget, GTK_ALIGN_CENTER)
        gtk_image_set_pixel_size(icon.opaque, 64)
        gtk_widget_add_css_class(icon, "dim-label")
        gtk_widget_add_css_class(title, "title-2")
        for label in [title, text] {
            gtk_label_set_wrap(label.opaque, 1)
            gtk_label_set_wrap_mode(label.opaque, PANGO_WRAP_WORD_CHAR)
            gtk_label_set_justify(label.opaque, GTK_JUSTIFY_CENTER)
            gtk_label_set_max_width_chars(label.opaque, 60)
        }
        gtk_widget_set_halign(button, GTK_ALIGN_CENTER)
        gtk_widget_set_margin_top(button, 12)
        Toolkit.connect(button, "clicked") { _ in action() }
    }

    func show(icon name: String, _ title: String, _ text: String) {
        gtk_image_set_from_icon_name(icon.opaque, name)
        gtk_label_set_text(self.title.opaque, Toolkit.printable(title))
        gtk_label_set_text(self.text.opaque, Toolkit.printable(text))
    }

    func focus() { gtk_widget_grab_focus(button) }
}
#endif
