#if GTK
import CGTK

print(gtk_get_major_version())
#else
print("Gallery needs GTK: swift run --traits GTK Gallery")
#endif
