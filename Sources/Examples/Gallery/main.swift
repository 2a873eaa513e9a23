// Shows the pictures in a folder on a web server, or in a JSON feed, and downloads selected ones.
//
//     swift run --traits GTK Gallery https://example.com/photos/
#if GTK
import CGTK
import Foundation

do {
    guard let options = try GalleryOptions(CommandLine.arguments.dropFirst()) else {
        print(GalleryOptions.usage)
        exit(0)
    }
    guard gtk_init_check() != 0 else {
        throw GalleryOptions.Mistake("Cannot open a display: start Gallery in a graphical session, or set DISPLAY.")
    }
    let gallery = Gallery(options)
    exit(gallery.run())
} catch {
    FileHandle.standardError.write(Data("Gallery: \(error)\n".utf8))
    exit(2)
}
#else
import Foundation

FileHandle.standardError.write(Data("Gallery needs GTK 4: swift run --traits GTK Gallery URL\n".utf8))
exit(2)
#endif
